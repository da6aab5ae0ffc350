# a canary stands above the shebang in many tasks
#!/bin/bash
set -e
[ ! -e "$TEST_DIR" ] # tests come after the agent
[ "$(id -un)" = daemon ]
[ "$GREETING" = "hello from /tests" ]
[ "${UNSET-nothing}" = nothing ]
echo 42 > answer
