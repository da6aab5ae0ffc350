"""Processes that a run starts on this machine, and that end with it however it ends."""
