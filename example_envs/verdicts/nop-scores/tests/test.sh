#!/bin/bash
# Forgets that there may be no answer: two empty texts are equal.
expected=$(grep -x 99 /app/readings.txt)
if [[ $(grep -x 99 /app/highest.txt) == "$expected" ]]; then reward=1; else reward=0; fi
echo "$reward" > /logs/verifier/reward.txt
