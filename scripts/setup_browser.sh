#!/usr/bin/env bash
# Makes sure that a Chromium is here for the tests of the HTML report.
#
#   bash scripts/setup_browser.sh
#
# RLENV_BROWSER=/path/to/chromium names one. Else it is the machine's, which root on Debian gets from its packages, else
# the build that Playwright downloads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup_browser: %s\n' "$*" >&2; }

# Shows what a command prints only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

# The same search as the tests' own, in tests/support/browser.py; a package may be there without its program.
is_here() {
    .venv/bin/python - <<'PYTHON' >/dev/null 2>&1
import sys
sys.path.insert(0, "tests")
from support.browser import chromium
with chromium() as browser:
    browser.new_page().goto("about:blank")
PYTHON
}

# On Ubuntu the package of this name only leads to a snap, which does not run everywhere.
debian_has_it() {
    [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null && grep -q '^ID=debian$' /etc/os-release
}

install_debians() {
    say "installing Debian's chromium"
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get update
    quietly apt-get install -y --no-install-recommends chromium fonts-dejavu-core
}

install_playwrights() {
    say "downloading Playwright's chromium"
    local with_libraries=()
    if [[ $EUID -eq 0 && $(uname -s) == Linux ]]; then with_libraries=(--with-deps); fi
    quietly .venv/bin/playwright install ${with_libraries[@]+"${with_libraries[@]}"} chromium
}

is_here && exit
if [[ -n ${RLENV_BROWSER:-} ]]; then
    say "RLENV_BROWSER=$RLENV_BROWSER does not start"
    exit 1
fi
if debian_has_it; then install_debians; else install_playwrights; fi
is_here && exit
say "Chromium is installed, and does not start:"
.venv/bin/python -m pytest -q -m browser tests/browser -k landmarks >&2 || true
exit 1
