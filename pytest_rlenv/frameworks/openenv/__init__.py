"""OpenEnv: tasks are episodes of a server that an environment's package starts."""
