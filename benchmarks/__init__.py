"""How fast it is, as ratios measured in one run: ``python -m benchmarks``."""
