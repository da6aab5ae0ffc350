"""What acts on a task. Agents know nothing of pytest."""
