"""What a run leaves behind: results, JUnit properties, terminal summary."""
