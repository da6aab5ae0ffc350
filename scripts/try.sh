#!/usr/bin/env bash
# Try it: sets up all that is needed on this machine, then runs the quickstart's tasks with the reference
# solution (oracle) and with an agent that does nothing (nop).
#
#   bash scripts/try.sh [pytest's arguments]      e.g. -n 2, -k csv, -v
#
# Where a Docker engine answers, the tasks run in its containers. Elsewhere they run in boxes over this machine's
# own programs: no engine is needed, and nothing is installed outside .venv.
#
#   bash scripts/try.sh --rlenv-sandbox docker    installs and starts an engine if need be (Debian, Ubuntu, as root)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints the sandbox that pytest will be asked for: by an argument, by the environment, or by nobody.
wanted_sandbox() {
    local wanted=${RLENV_SANDBOX:-auto}
    while (($#)); do
        case $1 in
            --rlenv-sandbox=*) wanted=${1#*=} ;;
            --rlenv-sandbox) wanted=${2:-} ;;
        esac
        shift
    done
    echo "$wanted"
}

# As the plugin itself sees it: a context of docker's, say, or a socket that this user may not use.
engine_answers() {
    .venv/bin/python - <<'PYTHON'
import sys
from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.client import shared_engine

try:
    shared_engine()
except EngineUnavailable:
    sys.exit(1)
PYTHON
}

setup_images() {
    bash scripts/setup_images.sh && return
    echo "try: or do without the engine: bash scripts/try.sh --rlenv-sandbox local-host" >&2
    exit 1
}

# Says where the tasks ran, from what the run itself recorded.
say_sandbox() {
    local ran
    ran=$(tr '>' '\n' <"$report" | sed -n 's/.*name="rlenv\.sandbox" value="\([^"]*\)".*/\1/p' | sort -u)
    case $ran in
        "") ;;
        *host\ userland*)
            echo "Sandbox: $ran. The tasks ran over this machine's own programs, walled off by namespaces."
            echo "In containers, as an environment's author means it: bash scripts/try.sh --rlenv-sandbox docker"
            ;;
        *) echo "Sandbox: $ran." ;;
    esac
}

bash scripts/setup_venv.sh '[local]'
wanted=$(wanted_sandbox "$@")
case $wanted in
    docker)
        bash scripts/setup_engine.sh
        setup_images
        ;;
    auto | local) if engine_answers; then setup_images; fi ;;
esac

report=.rlenv/quickstart.xml
mkdir -p .rlenv
rm -f "$report"
status=0
.venv/bin/python -m pytest --rlenv example_envs/quickstart --agent oracle,nop --junitxml="$report" "$@" || status=$?
if [[ -f $report ]]; then
    say_sandbox
    echo "JUnit report: $PWD/$report (results and logs: see the line \"rlenv: results\" above)"
elif [[ $status -eq 4 && $wanted == auto && $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
    echo "To have an engine installed and started on this machine: bash scripts/try.sh --rlenv-sandbox docker" >&2
fi
exit "$status"
