#!/bin/bash
# What pytest would print, without pytest: tests here need no network.
source "$TEST_DIR/checks.sh"
