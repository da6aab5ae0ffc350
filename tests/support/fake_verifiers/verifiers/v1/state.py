class State:
    pass


def state_cls(cls: type) -> type[State]:
    return State
