#!/usr/bin/env bash
# Makes .venv in this checkout, with the package (editable) and what is named of pyproject.toml: its dependency
# groups (test, lint, dev), and in brackets its extras.
#
#   bash scripts/setup_venv.sh [GROUP...] ['[EXTRA]'...]      e.g. dev '[local]'
#
# PYTHON=/path/to/python3 chooses the interpreter of a new .venv; else it is the python3 of the PATH if that is new
# enough, else the newest that is found. Quick when nothing has changed since the last time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
stamp=$venv/setup-stamp # what was installed: the checkout and pyproject.toml, then a group or [extra] a line

say() { printf 'setup_venv: %s\n' "$*" >&2; }

. scripts/find_python.sh
new_enough='sys.version_info >= (3, 10)'

# Debian's own Python comes without what makes virtual environments.
install_python() {
    [[ -z ${PYTHON:-} && $EUID -eq 0 ]] && command -v apt-get >/dev/null || return 1
    say "no Python >= 3.10 that can make virtual environments: installing Debian's"
    quietly apt-get update &&
        DEBIAN_FRONTEND=noninteractive quietly apt-get install -y --no-install-recommends python3 python3-venv
}

# Shows what a command prints only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

no_python() {
    say "no Python >= 3.10 with venv and ensurepip was found${PYTHON:+ at PYTHON=$PYTHON}."
    say "Install one (Debian, Ubuntu: apt-get install python3-venv; macOS: brew install python), or name one:"
    say "PYTHON=/path/to/python3 bash scripts/setup_venv.sh"
    exit 1
}

# A virtual environment knows its own place by absolute paths, so a moved checkout needs a new one.
venv_works() {
    [[ -f $venv/pyvenv.cfg ]] && is_python "$venv/bin/python" "$new_enough" && "$venv/bin/pip" --version >/dev/null 2>&1
}

# Prints a Python that can make virtual environments, as Debian's cannot without a package of its own.
a_python() { find_python "$new_enough" ensurepip venv; }

make_venv() {
    local python
    python=$(a_python) || { install_python && python=$(a_python); } || no_python
    say "making $venv with $("$python" --version) ($python)"
    "$python" -m venv --clear "$venv"
}

fingerprint() { echo "$PWD $(cksum <pyproject.toml)"; }

# True if the stamp says that pyproject.toml as it is now, with all that is asked for, is installed.
up_to_date() {
    [[ -f $stamp && $(head -n 1 "$stamp") == "$(fingerprint)" ]] || return 1
    local name
    for name in "$@"; do
        tail -n +2 "$stamp" | grep -qxF -- "$name" || return 1
    done
}

install() {
    local names=() name groups=() extras='' pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check)
    # A new pyproject.toml is installed with what was there, so that nothing falls behind.
    while read -r name; do
        names+=("$name")
        case $name in
            \[*\]) extras+=,$(tr -d '[]' <<<"$name") ;;
            *) groups+=(--group "$name") ;;
        esac
    done < <({ printf '%s\n' "$@"; [[ ! -f $stamp ]] || tail -n +2 "$stamp"; } | sed '/^$/d' | sort -u)
    say "installing pytest-rlenv${names[*]:+ with: ${names[*]}}"
    rm -f "$stamp"
    if ((${#groups[@]})); then "${pip[@]}" --upgrade 'pip>=25.1'; fi # the first that knows --group
    "${pip[@]}" --editable ".${extras:+[${extras#,}]}" ${groups[@]+"${groups[@]}"}
    { fingerprint; printf '%s\n' ${names[@]+"${names[@]}"}; } >"$stamp"
}

venv_works || make_venv
up_to_date "$@" || install "$@"
