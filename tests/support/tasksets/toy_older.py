"""An environment of Verifiers before 0.3.2: a function, and no taskset."""

__all__ = ["load_environment"]


def load_environment(**arguments):
    return None
