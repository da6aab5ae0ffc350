"""Readers of programs' own logs: each takes the log's bytes and tells a transcript what is in them."""
