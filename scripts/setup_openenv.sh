#!/usr/bin/env bash
# Installs OpenEnv in .matrix/openenv-VERSION: what our client is tested against.
# Prints the folder, which has bin/python.
#
#   bash scripts/setup_openenv.sh [VERSION]      0.10.0 by default; takes Python 3.12 where there is one, else a later one
#
# PYTHON=/path/to/python3 chooses the interpreter; the exit code is 3 where none fits. Nothing outside that folder is changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/find_python.sh

version=${1:-0.10.0}
folder=$PWD/.matrix/openenv-$version
stamp=$folder/setup-stamp

say() { printf 'setup_openenv: %s\n' "$*" >&2; }

if [[ ! -f $stamp ]]; then
    python=$(find_python 'sys.version_info[:2] == (3, 12)' ensurepip venv) ||
        python=$(find_python 'sys.version_info >= (3, 12)' ensurepip venv) || {
        say "OpenEnv's tests need Python 3.12 or later with venv, and there is none${PYTHON:+ at PYTHON=$PYTHON}"
        exit 3
    }
    say "installing OpenEnv $version with $python"
    "$python" -m venv --clear "$folder"
    # as bytecode from the start: the server imports some 2,400 modules
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check --compile "openenv[core]==$version" >&2
    touch "$stamp"
fi
echo "$folder"
