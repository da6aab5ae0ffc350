"""The gitignore matcher, against git's rules, git itself, and the places where Harbor departs from git."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_rlenv.frameworks.harbor.ignore import IgnoreRules, parse_rule

MATCHES = {
    "name at any depth": ("a.txt", ["a.txt", "x/a.txt", "x/y/a.txt"], ["b.txt", "a.txt.b", "xa.txt"]),
    "star": ("*.log", ["x.log", ".log", "d/x.log"], ["x.logs", "xlog"]),
    "star stays in its part": ("a/*.log", ["a/x.log"], ["a/b/x.log", "x.log"]),
    "question mark": ("a?c", ["abc", "x/a-c"], ["ac", "abbc"]),
    "leading slash": ("/a", ["a"], ["x/a"]),
    "slash in the middle": ("x/a", ["x/a"], ["y/x/a", "a"]),
    "leading stars": ("**/a", ["a", "x/a", "x/y/a"], ["ab"]),
    "leading stars, path": ("**/x/a", ["x/a", "y/x/a"], ["a", "x/y/a"]),
    "trailing stars": ("x/**", ["x/a", "x/y/a"], ["x", "y/x/a"]),
    "stars in the middle": ("x/**/a", ["x/a", "x/y/a", "x/y/z/a"], ["a", "xa", "x/ab"]),
    "stars in a row": ("x/**/**/a", ["x/a", "x/y/a"], ["a"]),
    "stars in a name are one": ("a**b", ["ab", "axb"], ["a/b"]),
    "set": ("[abc].txt", ["a.txt", "c.txt"], ["d.txt", "ab.txt"]),
    "range": ("[a-c]", ["b"], ["d", "-"]),
    "negated set": ("[!a-c]", ["d"], ["a", "b"]),
    "negated set, other spelling": ("[^a]", ["b"], ["a"]),
    "set with a bracket": ("[]a]", ["]", "a"], ["b"]),
    "set with an escape": (r"[\]]", ["]"], ["\\"]),
    "set with a dash last": ("[a-]", ["a", "-"], ["b"]),
    "class": ("[[:digit:]x]", ["1", "x"], ["a"]),
    "no class": ("[[:a]", ["[", ":", "a"], ["b"]),
    "open set matches nothing": ("[a", [], ["a", "[a"]),
    "unknown class matches nothing": ("[[:nope:]]", [], ["n", "a"]),
    "set never takes a slash": ("a[/]b", [], ["a/b"]),
    "escaped star": (r"\*", ["*"], ["a"]),
    "escaped hash": (r"\#a", ["#a"], ["a"]),
    "escaped bang": (r"\!a", ["!a"], ["a"]),
    "backslash at the end matches nothing": ("a\\", [], ["a", "a\\"]),
    "trailing spaces go": ("a   ", ["a"], ["a   "]),
    "escaped trailing space stays": ("a\\ ", ["a "], ["a"]),
    "leading space stays": (" a", [" a"], ["a"]),
    "letter case counts": ("A", ["A"], ["a"]),
    "CR LF": ("a\r\n", ["a"], []),
    "two slashes match nothing": ("a//b", [], ["a/b"]),
    "escaped slash is a slash": (r"a\/b", ["a/b"], ["b"]),
    "leading dot is no special": ("*", [".hidden", "a"], []),
}


@pytest.mark.parametrize(("line", "ignored", "kept"), MATCHES.values(), ids=MATCHES)
def test_one_rule(line: str, ignored: list[str], kept: list[str]) -> None:
    rules = IgnoreRules([line])
    assert [path for path in ignored if rules.ignored(path) is not True] == []
    assert [path for path in kept if rules.ignored(path) is not None] == []


@pytest.mark.parametrize("line", ["", "   ", "# comment", "/", "!", "!/"])
def test_no_rule(line: str) -> None:
    assert parse_rule(line) is None


@pytest.mark.parametrize(
    ("line", "path", "is_dir", "expected"),
    [
        ("a/", "a", True, True),
        ("a/", "a", False, None),
        ("a/", "x/a", True, True),
        ("/a/", "x/a", True, None),
        ("x/a/", "x/a", True, True),
        ("*/", "a", True, True),
        ("*/", "a", False, None),
        ("a/**/", "a/b", True, True),
        ("a/**/", "a/b", False, None),
    ],
)
def test_folders_only(line: str, path: str, is_dir: bool, expected: bool | None) -> None:
    assert IgnoreRules([line]).ignored(path, is_dir=is_dir) is expected


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["*.txt", "!a.txt"], "a.txt", False),
        (["*.txt", "!a.txt"], "b.txt", True),
        (["!a.txt", "*.txt"], "a.txt", True),
        (["*", "!*.sh", "x.sh"], "x.sh", True),
        (["*", "!*.sh", "x.sh"], "y.sh", False),
        (["a", "#b", "", "!c"], "b", None),
    ],
)
def test_the_last_rule_decides(lines: list[str], path: str, expected: bool | None) -> None:
    assert IgnoreRules(lines).ignored(path) is expected


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["a/**"], "a", True),
        (["a/**", "!a"], "a", True),
        (["*", "!*/"], "a", True),
        (["*", "!a"], "a", True),
        (["*", "!**"], "a", False),
        (["*.d", "!*/"], "x.d", False),
        (["/*", "!*/"], "a", False),
        (["**/*", "!*/"], "a", True),
    ],
)
def test_what_harbor_says_of_a_folder(lines: list[str], path: str, expected: bool) -> None:
    assert IgnoreRules(lines).ignored_in_harbor(path, is_dir=True) is expected


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["a/"], "a/b/c", True),
        (["a/", "!a/b"], "a/b", False),
        (["a/*"], "a/b", True),
        (["a/*"], "a/b/c", False),
        (["*"], "a/b", True),
        (["__pycache__/"], "x/__pycache__/y.pyc", True),
        (["__pycache__/"], "__pycache__", False),
        ([], "a", False),
    ],
)
def test_what_harbor_says_of_a_file_in_a_digest(lines: list[str], path: str, expected: bool) -> None:
    assert IgnoreRules(lines).ignored_in_digest(path) is expected


def test_a_hostile_pattern_does_not_take_for_ever() -> None:
    rules = IgnoreRules(["*a" * 60 + "b", "**/a/" * 60 + "b", "/".join(["**", "*a*a*b*"] * 30)])
    begin = time.monotonic()
    assert rules.ignored("a" * 250) is None
    assert rules.ignored("/".join(["a" * 30] * 100)) is None
    assert time.monotonic() - begin < 20


NAMES = st.sampled_from(["a", "b", "ab", "foo", "a.txt", "x-y", "[z]", "!c", "#h", "a b", "Foo"])
PIECES = st.sampled_from(
    [
        *(
            "a",
            "b",
            "foo",
            "*",
            "?",
            "/",
            "/",
            "[ab]",
            "[!a]",
            "[a-f]",
            "\\",
            ".txt",
            "[",
            "!",
            "#",
            " ",
            "-",
            "]",
        ),
        *("[[:alpha:]]", "[]a]", "[a\\]]", "x", "[^/]", "[a/]", "\\*", "/**", "**/"),
    ]
)
LINES = st.lists(st.lists(PIECES, min_size=1, max_size=6).map("".join), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for parent in ("", "a", "foo", "a/b", "foo/x-y", "a/b/[z]", "!c", "a b/#h"):
        (folder / parent).mkdir(parents=True, exist_ok=True)
        for name in ("ab", "a.txt", "x-y.txt", "Foo", "#h.txt", "]"):
            (folder / parent / name).touch()
    return folder


def paths_of(folder: Path) -> dict[str, bool]:
    """Return the paths in a repository, and of each whether it is a folder."""
    found = sorted(
        path for path in folder.rglob("*") if ".git" not in path.parts and path.name != ".gitignore"
    )
    return {path.relative_to(folder).as_posix(): path.is_dir() for path in found}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES)
def test_git_agrees(repository: Path, lines: list[str]) -> None:
    # git 2.39 and its neighbours match stars beside a name ("a**b") depending on where strings lie in memory
    assume(
        not any("**" in line.replace("/**/", "/").removeprefix("**/").removesuffix("/**") for line in lines)
    )
    (repository / ".gitignore").write_text("\n".join(lines) + "\n")
    paths = paths_of(repository)
    answer = subprocess.run(
        [
            "git",
            "-C",
            str(repository),
            "-c",
            "core.ignorecase=false",
            "check-ignore",
            "--no-index",
            "-z",
            "--stdin",
        ],
        input="\0".join(paths).encode(),
        capture_output=True,
        check=False,
    )
    assert answer.returncode in (0, 1), answer.stderr
    rules = IgnoreRules(lines)

    def ignored(path: str, is_dir: bool) -> bool:
        parts = path.split("/")
        return any(
            rules.ignored("/".join(parts[:end]), is_dir=end < len(parts) or is_dir)
            for end in range(1, len(parts) + 1)
        )

    ours = {path for path, is_dir in paths.items() if ignored(path, is_dir)}
    assert ours == set(answer.stdout.decode().split("\0")) - {""}


@given(LINES, st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.booleans())
def test_a_rule_and_its_negation_cancel(lines: list[str], path: str, is_dir: bool) -> None:
    assume(not any(line.lstrip().startswith(("!", "#")) for line in lines))
    said = IgnoreRules(lines).ignored(path, is_dir=is_dir)
    negated = IgnoreRules([*lines, *(f"!{line}" for line in lines)]).ignored(path, is_dir=is_dir)
    assert (said, negated) in ((True, False), (None, None))


@given(st.lists(st.text(max_size=20), max_size=5), st.lists(st.text(min_size=1), min_size=1).map("/".join))
def test_any_text_is_a_list_of_rules(lines: list[str], path: str) -> None:
    assert IgnoreRules(lines).ignored(path) in (True, False, None)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_a_path_ignores_itself(parts: list[str]) -> None:
    escaped = "/".join("".join(f"\\{char}" for char in part) for part in parts)
    assert IgnoreRules([f"/{escaped}"]).ignored("/".join(parts)) is True
