#!/bin/bash
# The commands of solution.yaml in one shell, so that each finds the directory and variables of those before.

set -m # the shell and what it starts get a process group of their own, to be ended together
exec 6>&1
coproc SESSION { exec bash 3>&1 >&6 6>&-; }
session=$SESSION_PID
exec 4>&"${SESSION[1]}" 5<&"${SESSION[0]}"
eval "exec ${SESSION[0]}<&- ${SESSION[1]}>&-"
trap '' PIPE # the shell may be gone when it is given the next command

# run_command NUMBER SECONDS COMMAND: give the shell a command and wait for it; 0 seconds are no limit.
run_command() {
  limit=()
  [ "$2" = 0 ] || limit=(-t "$2")
  printf 'eval %q 3>&-; printf . >&3\n' "$3" >&4 2>/dev/null || end_session
  read -r "${limit[@]}" -N 1 -u 5 && return
  [ $? -gt 128 ] || end_session # the shell is gone: the command ended it
  echo "solution.yaml: [$1] did not end within $2 s" >&2
  kill -KILL -- "-$session"
  exit 124
}

end_session() {
  exec 4>&-
  wait "$session"
  exit
}
