"""Agents that are programs of their own: installed into the box, run there, their logs read afterwards."""
