#!/bin/bash
# The name of the variable is misspelt below.
if [[ $(cat /app/highest.txt) == 21.75 ]]; then reward=1; else reward=0; fi
echo "$rewrad" > /logs/verifier/reward.txt
