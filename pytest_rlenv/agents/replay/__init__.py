"""The agent ``replay``: the commands of a stored trajectory, once more."""
