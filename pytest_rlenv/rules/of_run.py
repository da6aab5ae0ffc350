"""The user's files of rules for some tasks, as all processes of a run have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_rlenv.rules.expectations import Expectations
from pytest_rlenv.rules.quarantine import Quarantine
from pytest_rlenv.settings import Settings


@dataclass(frozen=True)
class Rules:
    """What quarantine and expectations file say; nothing where there is none."""

    quarantine: Quarantine = field(default_factory=Quarantine)
    expectations: Expectations = field(default_factory=Expectations)

    @classmethod
    def read(cls, settings: Settings, *, base: Path, rootdir: Path) -> Rules:
        """Read the files that the settings name.

        Args:
            settings: the run's.
            base: what relative paths are meant against.
            rootdir: what those of the ini file are meant against.

        Raises:
            SpecError: a file cannot be read, or has something wrong in it.
        """

        def path_of(option: str) -> Path | None:
            named: Path | None = getattr(settings, option)
            where = rootdir if settings.sources.get(option, "").startswith("ini") else base
            return None if named is None else where / named.expanduser()

        quarantine, expectations = path_of("quarantine"), path_of("expectations")
        return cls(
            Quarantine() if quarantine is None else Quarantine.read(quarantine),
            Expectations() if expectations is None else Expectations.read(expectations),
        )

    def dump(self) -> dict[str, Any]:
        """Return them in a form that JSON can hold, for another process."""
        return {"quarantine": self.quarantine.dump(), "expectations": self.expectations.dump()}

    @classmethod
    def load(cls, raw: Mapping[str, Any]) -> Rules:
        """Return what :meth:`dump` made."""
        return cls(Quarantine.load(raw["quarantine"]), Expectations.load(raw["expectations"]))
