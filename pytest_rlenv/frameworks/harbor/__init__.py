"""The Harbor framework: task folders with a ``task.toml`` (see docs/harbor.md)."""
