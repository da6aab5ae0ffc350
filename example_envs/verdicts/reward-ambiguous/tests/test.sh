#!/bin/bash
if [[ $(cat /app/highest.txt) == 21.75 ]]; then correct=1; else correct=0; fi
printf '{"correct": %d, "short": 1}\n' "$correct" > /logs/verifier/reward.json
