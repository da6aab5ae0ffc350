"""What ``python -m pytest_rlenv`` does, a module for each command; none of it is imported by a pytest run."""
