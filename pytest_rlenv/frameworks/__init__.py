"""What a task is and how one rollout of it runs: one package per framework."""
