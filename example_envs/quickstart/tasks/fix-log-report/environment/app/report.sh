#!/bin/bash
# Usage: report.sh LOGFILE
log=$1

requests=$(wc -l < $log)
errors=$(grep -c ' 5' $log)
bytes=$(awk '{ sum += $10 } END { print sum }' $log)
busiest=$(awk '{ print $7 }' $log | sort | uniq -c | sort -rn | head -1)

echo "requests: $requests"
echo "errors: $errors"
echo "bytes: $bytes"
echo "busiest: $busiest"
