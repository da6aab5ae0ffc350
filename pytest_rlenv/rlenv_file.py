"""``*.rlenv.toml``: an environment with its agents and expectations, as a test file in one's own tree.

repo = "org/repo@v1"          # or a folder, relative to this file
agent = ["oracle", "nop"]
task = ["hello-*"]
threshold = 0.9

[expect]
oracle = ">= 0.55"
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_rlenv import toml
from pytest_rlenv.environments.model import Environment
from pytest_rlenv.errors import SpecError
from pytest_rlenv.execution import SelectedTask
from pytest_rlenv.settings import MOST_ATTEMPTS, Agents, Finite, FrameworkName, Settings, Words
from pytest_rlenv.verdict import Expectation


class RlenvFile(BaseModel):
    """The contents of the file. Keys mean what the options of the same name mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repo: str
    agent: Agents | None = None
    task: Words | None = None
    exclude_task: Words | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] | None = None
    dataset: str | None = None
    framework: FrameworkName | None = None
    threshold: Finite | None = None
    reward_key: str | None = None
    expect: dict[str, str] = Field(default_factory=dict)
    """Expectation per agent, such as ``{"oracle": ">= 0.55"}``."""

    def settings(self, given: Settings, *, over_command_line: bool = False) -> Settings:
        """Return the run's settings with what this file sets.

        Args:
            given: the run's settings.
            over_command_line: False for a file, so that it can be run with another agent: what was given on
                the command line or in the environment is stronger. True for a test's mark. What was given in
                the ini file is weaker than both.
        """
        own = self.model_dump(exclude={"repo", "expect", "threshold", "reward_key"}, exclude_none=True)
        if not over_command_line:
            own = {
                name: value for name, value in own.items() if given.sources.get(name, "ini").startswith("ini")
            }
        return given.model_copy(update=own)


def check_request(values: Mapping[str, Any], *, where: str, hint: str) -> RlenvFile:
    """Return checked values.

    Raises:
        SpecError: naming the place, the field and the value.
    """
    try:
        found = RlenvFile.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SpecError(
            f"{where}: {field} = {first['input']!r}: {first['msg'].lower()}", hint=hint
        ) from error
    for agent, text in found.expect.items():
        Expectation.parse(text, source=f"{where}: expect.{agent}")
    return found


def read_rlenv_file(path: Path) -> RlenvFile:
    """Read and check a file.

    Raises:
        SpecError: naming the file, the field and the value.
    """
    try:
        values = toml.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise SpecError(f"{path.name}: {error}") from error
    hint = f"known keys: {', '.join(RlenvFile.model_fields)}"
    return check_request(values, where=path.name, hint=hint)


def selected_tasks(request: RlenvFile, environment: Environment, *, source: str) -> list[SelectedTask]:
    """Return the environment's tasks with what the file or mark expects of them.

    Args:
        request: the file or mark.
        environment: what it names, resolved.
        source: the file's name, or what stands for it in messages.
    """
    return [
        SelectedTask(
            environment,
            ref,
            expectations=request.expect,
            reward_key=request.reward_key,
            threshold=request.threshold,
            source=source,
        )
        for ref in environment.tasks
    ]
