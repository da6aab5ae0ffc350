#!/bin/bash
# Prints its judgement and forgets to write it.
if [[ $(cat /app/highest.txt) == 21.75 ]]; then echo "reward: 1"; else echo "reward: 0"; fi
