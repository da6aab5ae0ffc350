"""PID 1 of a box: it keeps the box up, survives ``kill -9 -1``, reaps orphans and ends at once on TERM.

A bare ``sleep infinity`` would do none of these; it makes every stop wait out a grace period of ten seconds.
"""

from __future__ import annotations

import math

# Built-ins and /proc/uptime only, as an image may lack `date`. A shell whose fork fails ends, which happens
# when its sleep is killed while the box has no process ids left: on EXIT it becomes a new shell, without a
# fork. Without `sleep` in the image the loop would spin, so it ends.
_LOOP = """\
trap 'exec sh -c "eval \\"\\$1\\"" rlenv-keeper "$1" "$2"' EXIT
trap 'trap - EXIT; exit 0' TERM INT
now() { read -r t _ </proc/uptime; t=${t%%.*}; }
now
[ "$2" = new ] && set -- "$1" "$((t+LIFETIME))"
while now; [ "$t" -lt "$2" ]; do
  sleep $(($2-t)) & wait $!
  [ $? -eq 127 ] && { trap - EXIT; exit 127; }
done
trap - EXIT
exit 0
"""

NO_SLEEP = 127
"""The exit code of a keeper that finds no ``sleep`` in its image."""


def keeper_command(lifetime: float) -> list[str]:
    """Return the command that keeps a box up for ``lifetime`` seconds, to be run through any ENTRYPOINT."""
    script = _LOOP.replace("LIFETIME", str(max(1, math.ceil(lifetime))))
    return ["sh", "-c", 'eval "$1"', "rlenv-keeper", script, "new"]
