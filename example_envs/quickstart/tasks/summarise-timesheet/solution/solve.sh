#!/bin/bash
set -euo pipefail
cat > /app/summarise.awk <<'AWK'
BEGIN {
    FS = ","
    order = "LC_ALL=C sort -k1,1nr -k2"
}
NR == 1 || /^#/ || /^[ \t\r]*$/ { next }
{
    for (i = 1; i <= NF; i++) gsub(/^[ \t\r]+|[ \t\r]+$/, "", $i)
    if ($4 ~ /^[0-9]+:[0-5][0-9]$/) {
        split($4, clock, ":")
        minutes = clock[1] * 60 + clock[2]
    } else if ($4 ~ /^([0-9]+\.?[0-9]*|\.[0-9]+)$/) {
        minutes = $4 * 60
    } else {
        minutes = -1
    }
    if (NF != 4 || $2 == "" || minutes < 0) {
        skipped++
        next
    }
    sum[$2] += minutes
    total += minutes
}
END {
    # The key for sorting goes first and is cut off again.
    for (name in sum) printf "%.6f %s %.2f\n", sum[name], name, sum[name] / 60 | (order " | cut -d ' ' -f 2-")
    close(order " | cut -d ' ' -f 2-")
    printf "total %.2f\nskipped %d\n", total / 60, skipped
}
AWK
