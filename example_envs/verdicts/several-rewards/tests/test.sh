#!/bin/bash
if [[ $(cat /app/highest.txt) == 21.75 ]]; then correct=1; else correct=0; fi
# How short the file is has no say in the verdict.
size=$(stat -c %s /app/highest.txt || echo 0)
printf '{"reward": %d, "bytes_written": %d}\n' "$correct" "$size" > /logs/verifier/reward.json
