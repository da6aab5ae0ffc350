#!/usr/bin/env bash
# Try it: sets up all that is needed on this machine, then runs the quickstart's tasks with the reference
# solution (oracle) and with an agent that does nothing (nop).
#
#   bash scripts/try.sh [pytest's arguments]      e.g. -n 2, -k csv, -v
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup_venv.sh
bash scripts/setup_engine.sh
bash scripts/setup_images.sh

report=.rlenv/quickstart.xml
mkdir -p .rlenv
rm -f "$report"
status=0
.venv/bin/python -m pytest --rlenv example_envs/quickstart --agent oracle,nop --junitxml="$report" "$@" || status=$?
if [[ -f $report ]]; then echo "JUnit report: $PWD/$report (results and logs: see the line \"rlenv: results\" above)"; fi
exit "$status"
