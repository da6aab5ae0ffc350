#!/bin/bash
# Runs the program on timesheets that its author has not seen. Writes four rewards to reward.json: 1 or 0 for each
# kind of timesheet, and as `reward` 1 only if all of them are right.
set -uo pipefail
scratch=$(mktemp -d)

# Prints 1 if the reports of all named timesheets are right, else 0; what differs goes to the log.
score() {
    local score=1 name
    for name in "$@"; do
        if timeout -k 1 5 awk -f /app/summarise.awk "/tests/sheets/$name.csv" > "$scratch/report" 2> "$scratch/errors" < /dev/null &&
            diff "/tests/sheets/$name.report" "$scratch/report" >&2; then
            echo "PASS $name" >&2
        else
            echo "FAIL $name" >&2
            head -n 5 "$scratch/errors" >&2
            score=0
        fi
    done
    echo $score
}

example=$(score march)
notations=$(score notations ties)
invalid_lines=$(score invalid nothing-valid header-only)
reward=$((example * notations * invalid_lines))

printf '{"reward": %d, "example": %d, "notations": %d, "invalid_lines": %d}\n' \
    "$reward" "$example" "$notations" "$invalid_lines" > /logs/verifier/reward.json
