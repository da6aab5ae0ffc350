"""What an agent did, in order, as an ATIF document (Agent Trajectory Interchange Format)."""

TRAJECTORY = "trajectory.json"
"""The file of it in the folder of an agent's logs."""
