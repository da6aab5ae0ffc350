#!/bin/bash
# Writes the share of SKUs whose row in /app/clean.csv is exactly right; 0 if the file as a whole is not usable.
set -uo pipefail
export LC_ALL=C
clean=/app/clean.csv
expected=/tests/expected.csv

give() {
    echo "$2"
    echo "$1" > /logs/verifier/reward.txt
    exit
}

[[ -f $clean ]] || give 0 "FAIL $clean is not there"
[[ $(head -n 1 "$clean") == $(head -n 1 "$expected") ]] || give 0 "FAIL the header is: $(head -n 1 "$clean")"

skus() { tail -n +2 "$1" | cut -d , -f 1 | tr '[:lower:]' '[:upper:]'; }
twice=$(skus "$clean" | sort | uniq -d | head -n 3)
[[ -z $twice ]] || give 0 "FAIL several rows for: $twice"
unknown=$(comm -13 <(skus "$expected" | sort) <(skus "$clean" | sort) | head -n 3)
[[ -z $unknown ]] || give 0 "FAIL not in the export: $unknown"

# The right rows in the right order: what a comparison of the two files leaves as common.
total=$(skus "$expected" | wc -l)
right=$(diff --unchanged-line-format='=%L' --old-line-format= --new-line-format= \
    <(tail -n +2 "$expected") <(tail -n +2 "$clean") | grep -c '^=')
diff "$expected" "$clean"
give "$(awk -v right="$right" -v total="$total" 'BEGIN { printf "%.4f", right / total }')" "$right of $total rows are right"
