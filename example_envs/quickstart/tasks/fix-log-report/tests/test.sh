#!/bin/bash
# Runs the repaired script on logs that its author has not seen. Writes 1 if every report is right, else 0.
set -uo pipefail
scratch=$(mktemp -d)
failed=0

# check NAME LOG EXPECTED
check() {
    if timeout -k 1 5 bash /app/report.sh "$2" > "$scratch/report" 2> "$scratch/errors" < /dev/null &&
        diff "$3" "$scratch/report"; then
        echo "PASS $1"
    else
        echo "FAIL $1"
        head -n 5 "$scratch/errors"
        failed=1
    fi
}

for log in /tests/logs/*.log; do
    name=$(basename "$log" .log)
    check "$name" "$log" "/tests/logs/$name.report"
done

cp /tests/logs/shop.log "$scratch/march 12.log"
check "a file name with a space" "$scratch/march 12.log" /tests/logs/shop.report
: > "$scratch/empty.log"
check "an empty log" "$scratch/empty.log" /tests/logs/blank.report

echo $((1 - failed)) > /logs/verifier/reward.txt
