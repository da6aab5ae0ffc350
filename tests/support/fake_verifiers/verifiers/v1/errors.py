class RolloutError(Exception):
    pass


class ProviderError(RolloutError):
    def __init__(self, message: str = "", *, status_code: int = 502) -> None:
        super().__init__(message)
        self.status_code = status_code


class HarnessError(RolloutError):
    pass


class SandboxError(RolloutError):
    pass


class TaskError(RolloutError):
    pass


class EnvError(RolloutError):
    pass
