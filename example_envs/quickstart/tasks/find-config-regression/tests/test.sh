#!/bin/bash
# Writes 1 if the answer is right and the repaired configuration works and is otherwise as it was, else 0.
set -uo pipefail
reward=1

check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        echo "PASS $name"
    else
        echo "FAIL $name"
        reward=0
    fi
}

without_key() { grep -v '^heartbeat_interval = ' "$1"; }

same_answer() { diff <(printf 'release: 009\nkey: heartbeat_interval\n') <(sed 's/[[:space:]]*$//' /app/answer.txt); }
delivers_once() { timeout -k 1 5 bash /tests/simulate.sh /app/service.conf; }
key_is_there_once() { [[ $(grep -c '^heartbeat_interval = ' /app/service.conf) -eq 1 ]]; }
rest_is_unchanged() { diff <(without_key /tests/service.conf) <(without_key /app/service.conf); }

check "the answer" same_answer
check "no job is delivered twice" delivers_once
check "the key is there once" key_is_there_once
check "the rest of the configuration is unchanged" rest_is_unchanged

echo "$reward" > /logs/verifier/reward.txt
