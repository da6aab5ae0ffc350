#!/bin/bash
set -e
reward=$(score-answer /app/highest.txt) # not in the image
echo "$reward" > /logs/verifier/reward.txt
