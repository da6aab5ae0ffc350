"""A small root file system, copied from this machine's programs: an image that needs no engine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = (
    *("bash", "sh", "cat", "chgrp", "chmod", "chown", "chroot", "cp", "cut", "date", "df", "dmesg", "echo"),
    *("env", "false", "find", "grep", "head", "hostname", "id", "ls", "ln", "mkdir", "mkfifo", "mknod"),
    *("mount", "mv", "nohup", "nsenter", "perl", "printf", "pwd", "readlink", "rm", "seq", "setsid", "sleep"),
    *("sort", "stat", "tail", "touch", "tr", "true", "truncate", "umount", "unshare", "wc", "yes"),
)
"""What the tests of boxes run."""

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = {
    "dev": 0o755,
    "etc": 0o755,
    "home": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "proc": 0o755,
    "run": 0o755,
}
_FOLDERS |= {"root": 0o700, "sys": 0o755, "tmp": 0o1777, "usr/share": 0o755, "var/tmp": 0o1777}
_FILES = {
    "debian_version": "12\n",
    "hostname": "small\n",
    "passwd": "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n",
}
_LIBRARY = re.compile(r"(/\S+) \(0x")


def write_small_image(root: Path) -> None:
    """Write it below ``root``, which must not be there."""
    root.mkdir(parents=True)
    for name, mode in _FOLDERS.items():
        (root / name).mkdir(parents=True)
        (root / name).chmod(mode)
    for name in _MERGED:
        if Path("/", name).is_symlink():  # /bin -> usr/bin
            target = Path("/", name).readlink()
            (root / target).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(target)
    for name, text in _FILES.items():
        (root / "etc" / name).write_text(text)
    programs = [found for name in PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin:/usr/sbin"))]
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for path in {*programs, *_LIBRARY.findall(listed)}:
        _copy(path, root)


def _copy(path: str, root: Path) -> None:
    target = root / path[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
