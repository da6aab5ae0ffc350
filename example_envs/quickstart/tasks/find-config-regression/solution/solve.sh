#!/bin/bash
set -euo pipefail
cd /app

# The first release of the unbroken row of bad ones that ends with the last.
bad=
for conf in $(printf '%s\n' releases/*.conf | sort -r); do
    if bash simulate.sh "$conf" > /dev/null; then break; fi
    bad=$conf
done
good=$conf

# Of the keys that changed there: the one that heals the release when it is put back.
while IFS='= ' read -r key _; do
    line=$(grep "^$key = " "$good")
    sed "s/^$key = .*/$line/" "$bad" > /tmp/one-key-back.conf
    if bash simulate.sh /tmp/one-key-back.conf > /dev/null; then
        printf 'release: %s\nkey: %s\n' "$(basename "$bad" .conf)" "$key" > answer.txt
        sed -i "s/^$key = .*/$line/" service.conf
    fi
done < <(diff "$good" "$bad" | sed -n 's/^> //p')
