# shellcheck shell=bash
# Sourced by the scripts beside it: which Python of this machine they use.

# Prints the first interpreter for which a condition on `sys` holds and which has the modules that are named.
#
#   find_python 'sys.version_info >= (3, 12)' ensurepip venv
#
# That is PYTHON, and no other, where it is set; else the python3 of the PATH, the newest beside it, those of pyenv,
# the system's. A name on the PATH may be a shim of pyenv that leads nowhere, so each is tried.
find_python() {
    local python
    while read -r python; do
        if is_python "$python" "$@"; then
            echo "$python"
            return
        fi
    done < <(python_candidates)
    return 1
}

# True for an interpreter that fits; see find_python.
is_python() {
    local python=$1 condition=$2 imports=sys module
    for module in "${@:3}"; do imports+=", $module"; done
    "$python" -c "import $imports; sys.exit(not ($condition))" </dev/null >/dev/null 2>&1
}

python_candidates() {
    if [[ -n ${PYTHON:-} ]]; then
        echo "$PYTHON"
        return
    fi
    local minor
    echo python3
    for minor in 14 13 12 11 10; do echo "python3.$minor"; done
    find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -maxdepth 3 -path '*/bin/python3' 2>/dev/null | sort -rV
    echo /usr/bin/python3
}
