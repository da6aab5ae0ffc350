"""Print docs/options.md from the option table: `python scripts/options_page.py > docs/options.md`."""

from __future__ import annotations

from pytest_rlenv.option import Option
from pytest_rlenv.options import OPTIONS

HEAD = """# Options

The command line beats the environment, which beats the ini file, which beats the default. A test holds
this page to the option table.

| command line | environment | ini | what it does |
|---|---|---|---|
"""
TAIL = """
Besides, `RLENV_CACHE` is the folder of what outlives a run (default `~/.cache/pytest-rlenv`): fetched tasks,
extracted images and locks. The Hub's own variables (`HF_TOKEN`, `HF_HOME`, `HF_ENDPOINT`,
`HF_HUB_OFFLINE`) and Docker's (`DOCKER_HOST`, `DOCKER_CONTEXT`) mean what they mean elsewhere.
"""


def row(option: Option) -> str:
    """Return an option's row."""
    flags = " ".join(filter(None, [option.alias, option.cli_flag]))
    value = f" {option.metavar}" if option.metavar else ""
    variable = f"`{option.variable}`" if option.env else ""
    text = option.help.replace("|", "\\|")
    return f"| `{flags}{value}` | {variable} | `{option.ini_key}` | {text} |"


def page() -> str:
    """Return the page."""
    return HEAD + "\n".join(row(option) for option in OPTIONS) + "\n" + TAIL


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - printing is what it is for
