#!/bin/bash
right=0
# check FILE VALUE
check() {
    if [[ $(cat "/app/$1.txt") == "$2" ]]; then right=$((right + 1)); else echo "FAIL $1"; fi
}
check highest 21.75
check lowest -3
check count 4
check first 4.5
check last 18
awk -v right="$right" 'BEGIN { print right / 5 }' > /logs/verifier/reward.txt
