#!/bin/bash
if [[ $(cat /app/highest.txt) == 21.75 ]]; then reward=1; else reward=0; fi
# JSON has double quotes only.
echo "{'reward': $reward}" > /logs/verifier/reward.json
