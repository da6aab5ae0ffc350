"""What an agent did, in order, as an ATIF document (Agent Trajectory Interchange Format)."""
