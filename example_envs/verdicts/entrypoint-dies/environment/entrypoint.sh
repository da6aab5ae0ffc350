#!/bin/bash
if [[ -z ${DATABASE_URL:-} ]]; then
    echo "DATABASE_URL is not set" >&2
    exit 78
fi
exec "$@"
