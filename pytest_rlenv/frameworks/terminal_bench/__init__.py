"""Terminal-Bench 1: folders with a ``task.yaml``, run as Harbor tasks are: docs/terminal-bench.md."""
