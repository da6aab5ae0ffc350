"""Several rollouts at once in one process: they are begun in threads, before their tests' turn comes."""
