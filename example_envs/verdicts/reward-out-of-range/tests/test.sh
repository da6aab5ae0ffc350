#!/bin/bash
if [[ $(cat /app/highest.txt) == 21.75 ]]; then reward=100; else reward=0; fi
echo "$reward" > /logs/verifier/reward.txt
