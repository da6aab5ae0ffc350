"""The boxes in which agent and verifier act. They know nothing of tasks."""
