from verifiers.v1.runtimes import SubprocessConfig


def resolve_runtime_config(base, task):
    if task.data.image is not None and isinstance(base, SubprocessConfig):
        raise ValueError(f"task {task.data.idx!r} requires image {task.data.image!r}")
    return base
