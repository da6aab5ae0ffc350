"""The agent ``replay``: the commands, or the moves, of a stored trajectory, once more."""
