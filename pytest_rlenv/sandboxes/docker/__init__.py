"""Boxes in a Docker engine, over its API."""
