#!/usr/bin/env bash
# Installs Verifiers in .matrix/verifiers-VERSION: what tests of the mark `verifiers` run against.
# Prints the folder, which has bin/python.
#
#   bash scripts/setup_verifiers.sh [VERSION]      0.4.0 by default; needs Python 3.11 to 3.14
#
# PYTHON=/path/to/python3 chooses the interpreter; the exit code is 3 where none fits. Nothing outside that folder is changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/find_python.sh

version=${1:-0.4.0}
folder=$PWD/.matrix/verifiers-$version
stamp=$folder/setup-stamp

say() { printf 'setup_verifiers: %s\n' "$*" >&2; }

if [[ ! -f $stamp ]]; then
    python=$(find_python '(3, 11) <= sys.version_info < (3, 15)' ensurepip venv) || {
        say "Verifiers needs Python 3.11 to 3.14 with venv, and there is none${PYTHON:+ at PYTHON=$PYTHON}"
        exit 3
    }
    say "installing Verifiers $version with $python"
    "$python" -m venv --clear "$folder"
    # its harnesses look for uv where their programs run, and would install it themselves
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check "verifiers==$version" uv >&2
    touch "$stamp"
fi
echo "$folder"
