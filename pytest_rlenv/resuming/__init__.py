"""Going on with an earlier run: what it scored is kept, the rest is run."""
