#!/usr/bin/env bash
# All checks, in the order in which they are cheap: lint, fast tests, tests with a Docker engine and with Harbor,
# the matrix of pytest and Python versions. Stops at the first that fails.
#
#   bash scripts/test.sh [--fast|--all]
#
# --fast: lint and fast tests only; needs no engine and no browser.
# --all: also the tests with packages that take long to install, which are run elsewhere only where they are, and
# all of the plugin's tests on the oldest pytest and Python, instead of the most telling.
#
# The last line counts the tests of all steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fast=
all=
case ${1:-} in
    --fast) fast=1 ;;
    --all) all=1 ;;
    "") ;;
    *)
        echo "usage: bash scripts/test.sh [--fast|--all]" >&2
        exit 2
        ;;
esac

unset PYTHONDONTWRITEBYTECODE # with it, each of a thousand processes compiles what it imports
REPORTS=$(mktemp -d)
export REPORTS
trap finish EXIT

# Prints the count over all steps; a step that failed without a failing test counts as one.
finish() {
    local status=$?
    trap - EXIT
    python_of_venv - "$REPORTS" "$status" <<'PYTHON' || echo "0 passed, 1 failed"
import pathlib, sys
from xml.etree import ElementTree

folder, status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
for file in folder.glob("*.xml"):
    for suite in ElementTree.parse(file).getroot().iter("testsuite"):
        for key in total:
            total[key] += int(suite.get(key, 0))
failed = total["failures"] + total["errors"]
passed = max(total["tests"] - failed - total["skipped"], 0)
failed = failed or int(status != 0)
print(f"{passed} passed, {failed} failed" + (f", {total['skipped']} skipped" if total["skipped"] else ""))
PYTHON
    rm -rf "$REPORTS"
    exit "$status"
}

python_of_venv() { .venv/bin/python "$@"; }
headline() { printf '\n=== %s\n' "$*"; }

run_tests() {
    local name=$1
    shift
    python_of_venv -m pytest -q --junitxml "$REPORTS/$name.xml" "$@"
}

lint() {
    headline "lint: ruff, mypy, shellcheck"
    .venv/bin/ruff check
    .venv/bin/ruff format --check
    .venv/bin/mypy
    if command -v shellcheck >/dev/null; then
        shellcheck scripts/*.sh .ci/run
    else
        echo "shellcheck is not installed: left out"
    fi
}

# Prints the containers of ours that nobody will remove: their process is gone, or their time is up.
orphans() {
    python_of_venv - <<'PYTHON'
import time
import docker
from pytest_rlenv.sandboxes.docker.labels import OURS, is_stale

found = docker.from_env().api.containers(all=True, filters={"label": f"{OURS}=1"})
print("\n".join(sorted(box["Id"] for box in found if is_stale(box["Labels"], time.time()))))
PYTHON
}

remove_containers() {
    python_of_venv -c 'import docker, sys; engine = docker.from_env().api
for box in sys.stdin.read().split(): engine.remove_container(box, v=True, force=True)'
}

engine_tests() {
    headline "tests with a Docker engine"
    local before left
    before=$(orphans)
    run_tests engine -m docker -n 2
    left=$(comm -13 <(echo "$before") <(orphans))
    if [[ -n $left ]]; then
        printf 'the tests left containers behind, which are removed now:\n%s\n' "$left"
        remove_containers <<<"$left"
        return 1
    fi
}

# Runs the tests against a package that another script installs in a Python of its own, which this machine may not have.
package_tests() {
    local name=$1 title=$2 status=0
    headline "tests with $title"
    bash "scripts/setup_$name.sh" || status=$?
    case $status in
        0) run_tests "$name" -m "$name" ;;
        3) echo "no Python for $title here: left out" ;;
        *) return "$status" ;;
    esac
}

# The same, where it is installed already or --all asks for it.
large_package_tests() {
    local name=$1 title=$2 folder=$3 size=$4
    if [[ -n $all || -x .matrix/$folder/bin/python ]]; then
        package_tests "$name" "$title"
    else
        headline "tests with $title"
        echo "left out: it is not installed, and takes $size (bash scripts/setup_$name.sh, or --all)"
    fi
}

headline "set-up"
bash scripts/setup_venv.sh dev
if [[ -z $fast ]]; then
    bash scripts/setup_browser.sh
    bash scripts/setup_engine.sh
    bash scripts/setup_images.sh python:3.11-slim
fi
lint
headline "fast tests"
run_tests fast -m "not docker and not harbor and not nemo_gym and not openenv and not verifiers${fast:+ and not browser}" -n auto
[[ -z $fast ]] || exit 0
engine_tests
package_tests harbor Harbor
package_tests openenv OpenEnv
large_package_tests verifiers Verifiers verifiers-0.4.0 "0.6 GB"
large_package_tests nemo_gym "NeMo Gym" nemo-gym-0.4.0 "1.5 GB"
headline "matrix of pytest and Python versions"
bash scripts/matrix.sh ${all:+--all}
