"""Agents of an installed Harbor, run by its own interpreter on our boxes."""
