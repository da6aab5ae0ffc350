"""Two runs compared: a run and the baseline that it must not fall behind."""
