import inspect


def invoke(fn, available):
    return fn(**{name: available[name] for name in inspect.signature(fn).parameters if name in available})
