#!/bin/bash
echo "=== short test summary info ==="
echo "no tests ran in 0.01s"
