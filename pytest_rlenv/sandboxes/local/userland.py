"""The root of a box without an image: this machine's programs, read-only, and a little of ``/etc``.

Nothing else of the machine is there: no homes, no ``/opt``, ``/var`` or ``/srv``, and of ``/etc`` only what
programs need and anybody may know. All but the programs belongs to the box and can be written to.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")
_ETC_FOLDERS = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "java",
    "ld.so.conf.d",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "ssl/certs",
    "terminfo",
)
_ETC_FILES = (
    "bash.bashrc",
    "debian_version",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "login.defs",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "profile",
    "protocols",
    "services",
    "shells",
    "ssl/openssl.cnf",
    "timezone",
)
_FOLDERS = {
    "etc": 0o755,
    "etc/ssl": 0o755,
    "home": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "root": 0o700,
    "run": 0o755,
    "srv": 0o755,
    "tmp": 0o1777,
    "var": 0o755,
    "var/tmp": 0o1777,
}
_PASSWD = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nwww-data:x:33:\nusers:x:100:\nnogroup:x:65534:\n"


def is_writable(path: str) -> bool:
    """Return True if a box has that absolute path for itself."""
    kernel = ("/proc", "/dev", "/sys")
    taken = (*_PROGRAMS, *kernel, *(f"/etc/{name}" for name in _ETC_FOLDERS))
    return not any(path == each or path.startswith(f"{each}/") for each in taken)


def make_root(folder: Path) -> tuple[str, ...]:
    """Fill the folder of a box's own files, and return bubblewrap's arguments for its root."""
    root = folder / "root"
    root.mkdir(mode=0o755)
    for name, mode in _FOLDERS.items():
        (root / name).mkdir()
        (root / name).chmod(mode)
    for name in _ETC_FILES:
        source = Path("/etc", name)
        if source.is_file() and _is_public(source):
            shutil.copyfile(source, root / "etc" / name)
    (root / "etc/passwd").write_text(_PASSWD, encoding="ascii")
    (root / "etc/group").write_text(_GROUP, encoding="ascii")
    return ("--bind", str(root), "/", *_binds(root))


def _binds(root: Path) -> Iterator[str]:
    for name in _PROGRAMS:
        source = Path(name)
        if source.is_symlink():  # /bin -> usr/bin
            (root / name[1:]).symlink_to(source.readlink())
        elif source.is_dir():
            yield from ("--ro-bind", name, name)
    for name in _ETC_FOLDERS:
        if Path("/etc", name).is_dir():
            yield from ("--ro-bind", f"/etc/{name}", f"/etc/{name}")


def _is_public(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o004)
