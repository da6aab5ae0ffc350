#!/usr/bin/env bash
# Installs NeMo Gym, and what the servers need that our tests start, in .matrix/nemo-gym-VERSION.
# Prints the folder, which has bin/python.
#
#   bash scripts/setup_nemo_gym.sh [VERSION]    0.4.0 by default; needs Python 3.12 or 3.13, and 1.5 GB
#
# PYTHON=/path/to/python3 chooses the interpreter; the exit code is 3 where none fits. Nothing outside that folder is changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/find_python.sh

version=${1:-0.4.0}
folder=$PWD/.matrix/nemo-gym-$version
stamp=$folder/setup-stamp

say() { printf 'setup_nemo_gym: %s\n' "$*" >&2; }

if [[ ! -f $stamp ]]; then
    python=$(find_python '(3, 12) <= sys.version_info < (3, 14)' ensurepip venv) || {
        say "NeMo Gym $version needs Python 3.12 or 3.13 with venv, and there is none${PYTHON:+ at PYTHON=$PYTHON}"
        exit 3
    }
    say "installing NeMo Gym $version with $python"
    "$python" -m venv --clear "$folder"
    # what the servers' requirements.txt name; NeMo Gym itself makes an environment for each server
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check "nemo-gym==$version" \
        openapi-schema-validator==0.6.3 xmltodict tomli-w toml math-verify==0.8.0 reasoning-gym rich >&2
    touch "$stamp"
fi
echo "$folder"
