#!/usr/bin/env bash
# Runs the most telling of the plugin's fast tests against several versions of pytest and of Python.
#
#   bash scripts/matrix.sh [--all] [NAME...]      e.g. pytest-8.2.2; every leg by default
#
# --all: all of the plugin's tests against the oldest, which takes several minutes more.
# Each leg has a virtual environment in .matrix/NAME. Where a leg's Python is not on this machine, that of .venv
# takes its place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/find_python.sh

oldest=some
if [[ ${1:-} == --all ]]; then
    oldest=all
    shift
fi
legs=( # name, Python (- is that of .venv), pytest, which tests; the oldest and the newest of both go together
    "pytest-8.2.2  3.10  ==8.2.2  $oldest"
    "pytest-8.4.2  -     ==8.4.2  some"
    "pytest-9.1.1  -     ==9.1.1  some"
    "pytest-9      3.13  >=9,<10  some"
)
# Those in which a version of pytest has made a difference, or most likely would.
some=(tests/plugin/test_{selecting,outcomes,guests,own_tests,jobs,jobs_order}.py)
export UV_PYTHON_DOWNLOADS=never
unset PYTHONDONTWRITEBYTECODE # with it, each of a thousand processes compiles what it imports
# How processes end at a signal is the operating system's affair, not pytest's: tested once, in the fast tests.
signals=tests/plugin/test_workers.py::test_an_interrupted_run_leaves_reports_and_no_box

wanted() {
    local name=$1
    shift
    [[ $# -eq 0 || " $* " == *" $name "* ]]
}

# Prints the interpreter of a version such as 3.13, or that of .venv.
python_of_leg() {
    local version=$1
    if [[ $version == - ]] || ! PYTHON='' find_python "sys.version_info[:2] == (${version/./, })"; then
        echo .venv/bin/python
    fi
}

install() {
    local name=$1 python=$2 requirement=$3
    [[ -x .matrix/$name/bin/python ]] || .venv/bin/uv venv --quiet --clear --python "$python" ".matrix/$name"
    # Always asked for the newest pytest that fits, which is the point of the open-ended legs.
    .venv/bin/uv pip install --quiet --compile-bytecode --python ".matrix/$name/bin/python" --upgrade-package pytest \
        --editable . --group test "pytest$requirement"
}

versions() {
    "$1" -c 'import platform, pytest; print("Python", platform.python_version(), "with pytest", pytest.__version__)'
}

use_pips_index() {
    local index=${PIP_INDEX_URL:-}
    [[ -n $index ]] || index=$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)
    if [[ -n $index && -z ${UV_DEFAULT_INDEX:-} ]]; then export UV_DEFAULT_INDEX=$index; fi
}

bash scripts/setup_venv.sh
[[ -x .venv/bin/uv ]] || .venv/bin/python -m pip install -qq --disable-pip-version-check uv
use_pips_index

ran=0
for leg in "${legs[@]}"; do
    read -r name version requirement which <<<"$leg"
    wanted "$name" "$@" || continue
    install "$name" "$(python_of_leg "$version")" "$requirement"
    echo "--- $name: $(versions ".matrix/$name/bin/python")"
    report=()
    if [[ -n ${REPORTS:-} ]]; then report=(--junitxml "$REPORTS/$name.xml"); fi # scripts/test.sh counts them
    tests=(tests/plugin)
    if [[ $which == some ]]; then tests=("${some[@]}"); fi
    ".matrix/$name/bin/python" -m pytest "${tests[@]}" --deselect "$signals" -q -x -n auto -p no:cacheprovider ${report[@]+"${report[@]}"}
    ran=$((ran + 1))
done
if [[ $ran -eq 0 ]]; then
    echo "matrix: nothing was run; known are:" >&2
    printf '  %s\n' "${legs[@]}" >&2
    exit 1
fi
