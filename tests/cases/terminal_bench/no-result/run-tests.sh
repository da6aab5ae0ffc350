#!/bin/bash
set -e
echo "curl: (6) Could not resolve host: astral.sh" >&2
exit 6
