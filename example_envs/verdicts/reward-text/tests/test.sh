#!/bin/bash
if [[ $(cat /app/highest.txt) == 21.75 ]]; then result=pass; else result=fail; fi
echo "$result" > /logs/verifier/reward.txt
