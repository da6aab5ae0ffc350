"""Dockerfiles that need no image, and how those that do are refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import BuildFailed, TaskInvalid, Unsupported
from pytest_rlenv.sandboxes.local.instructions import assignments, expand, parse, split
from pytest_rlenv.sandboxes.local.recipe import Recipe, read_recipe
from pytest_rlenv.sandboxes.local.userland import is_writable

FILES = {
    "a.txt": "A",
    "b.txt": "B",
    "run.sh": "#!/bin/sh",
    "data/one": "1",
    "data/deep/two": "2",
    "data/deep/three.md": "3",
    "[odd]": "odd",
}


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "run.sh").chmod(0o755)
    (folder / "a.txt").chmod(0o640)
    return folder


def read(context: Path, text: str, start: str = "FROM x\n") -> Recipe:
    (context / "Dockerfile").write_text(start + text)
    return read_recipe(context, is_writable)


def files(recipe: Recipe) -> dict[str, str]:
    return {each.path: each.source.name for each in recipe.entries if each.source is not None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY a.txt /srv/x", {"/srv/x": "a.txt"}),
        ("COPY a.txt /srv/", {"/srv/a.txt": "a.txt"}),
        ("COPY a.txt b.txt /srv/", {"/srv/a.txt": "a.txt", "/srv/b.txt": "b.txt"}),
        ("COPY *.txt ./", {"/a.txt": "a.txt", "/b.txt": "b.txt"}),
        ("COPY ?.txt /srv/", {"/srv/a.txt": "a.txt", "/srv/b.txt": "b.txt"}),
        ("COPY [^a].txt /srv/", {"/srv/b.txt": "b.txt"}),
        ("WORKDIR /app\nCOPY a.txt .", {"/app/a.txt": "a.txt"}),
        ("WORKDIR /app\nWORKDIR sub\nCOPY a.txt b", {"/app/sub/b": "a.txt"}),
        ("COPY data /srv", {"/srv/one": "one", "/srv/deep/two": "two", "/srv/deep/three.md": "three.md"}),
        ("COPY data/ /srv/", {"/srv/one": "one", "/srv/deep/two": "two", "/srv/deep/three.md": "three.md"}),
        ("COPY data/*/*.md /srv/", {"/srv/three.md": "three.md"}),
        ('COPY ["a.txt", "/with space/"]', {"/with space/a.txt": "a.txt"}),
        ("ADD ./a.txt /srv/x", {"/srv/x": "a.txt"}),
        ("COPY /a.txt /srv/x", {"/srv/x": "a.txt"}),
        ("ARG N=a\nCOPY ${N}.txt /$N/", {"/a/a.txt": "a.txt"}),
        ("ENV D=/d\nCOPY a.txt $D/${MISSING:-x}", {"/d/x": "a.txt"}),
        ("COPY --chown=root:root --link a.txt /x", {"/x": "a.txt"}),
    ],
)
def test_copy(text: str, expected: dict[str, str], context: Path) -> None:
    assert files(read(context, text)) == expected


def test_copy_of_everything(context: Path) -> None:
    (context / ".dockerignore").write_text("*.txt\n")
    got = files(read(context, "COPY . /app"))
    assert set(got) == {
        "/app/run.sh",
        "/app/[odd]",
        "/app/data/one",
        "/app/data/deep/two",
        "/app/data/deep/three.md",
        "/app/Dockerfile",
        "/app/.dockerignore",
    }


def test_modes(context: Path) -> None:
    recipe = read(context, "COPY a.txt run.sh /x/\nCOPY --chmod=600 run.sh /y\nWORKDIR /w")
    assert {each.path: each.mode for each in recipe.entries} == {
        "/x/a.txt": 0o640,
        "/x/run.sh": 0o755,
        "/y": 0o600,
        "/w": 0o755,
    }


def test_environment(context: Path) -> None:
    recipe = read(
        context,
        'ARG W="the world"\nENV A="hello $W" B=\'$W\' C=a\\ b \\\n  # comment\n\n  D=$A\n'
        "ENV LEGACY some words $A\n"
        'ENV PATH=/own:$PATH\nLABEL x=y\nEXPOSE 80\nCMD ["z"]\nUSER root\nHEALTHCHECK NONE\n',
    )
    assert recipe.config.env == {
        "A": "hello the world",
        "B": "$W",
        "C": "a b",
        "D": "",
        "LEGACY": "some words hello the world",
        "PATH": "/own:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }


def test_base_and_arguments_before_it(context: Path) -> None:
    recipe = read(
        context,
        "ENV X=$V",
        start="# escape=`\nARG V=3.12\nFROM --platform=linux/amd64 python:${V}-slim AS main\n",
    )
    assert recipe.base == "python:3.12-slim"
    assert recipe.config.env["X"] == ""  # out of its scope


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "RUN apt-get install -y x",
            "line 2: RUN apt-get install -y x: the local sandbox over this machine's userland runs no RUN",
        ),
        ('\n\nSHELL ["bash"]', "line 4: SHELL"),
        ('ENTRYPOINT ["x"]', "runs no ENTRYPOINT"),
        ("VOLUME /x", "runs no VOLUME"),
        ("ONBUILD COPY a.txt /x", "runs no ONBUILD"),
        ("NONSENSE x", "runs no NONSENSE"),
        ("FROM y", "has no build stages"),
        ("USER nobody", "has no users of an image"),
        ("HEALTHCHECK CMD true", "runs no HEALTHCHECK"),
        ("COPY --from=0 /a /b", "does not know --from"),
        ("COPY --parents a.txt /b", "does not know --parents"),
        ("COPY --chown=1000 a.txt /b", "keeps no other owner than root"),
        ("COPY <<EOF /x\nhi\nEOF", "reads no here-documents"),
        ("COPY ../x /x", "../x leaves the build context"),
        ("COPY *.txt /x", "with several sources, '/x' must end with /"),
        ("COPY a.txt", "it needs a source and a destination"),
        ("COPY a.txt /usr/local/bin/x", "/usr/local/bin/x belongs to this machine and is read-only"),
        ("WORKDIR /usr/src", "/usr/src belongs to this machine"),
        ("COPY a.txt /bin/x", "/bin/x belongs to this machine"),
        ("COPY a.txt /proc/x", "/proc/x belongs to this machine"),
        ("ADD https://example.org/x /x", "https://example.org/x is not a local file"),
        ("ADD git@github.com:a/b.git /x", "is not a local file"),
        ("ENV A", "A has no value"),
        ("ENV A='x", "a quote is not closed"),
    ],
)
def test_refused_by_line(text: str, reason: str, context: Path) -> None:
    with pytest.raises(Unsupported) as caught:
        read(context, text)
    assert caught.value.reason.startswith("environment/Dockerfile line ")
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "name"),
    [("COPY gone /x", "gone"), ("COPY *.gone /x/", r"\*.gone"), ('COPY ["a.txt", /x', r"\[a.txt,")],
)
def test_a_file_that_is_not_there_is_an_error_as_it_is_to_a_builder(
    text: str, name: str, context: Path
) -> None:
    with pytest.raises(BuildFailed, match=rf"Dockerfile line 2: COPY .*: there is no {name} in the build"):
        read(context, text)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("", "there is no FROM"),
        ("FROM scratch\n", "is no empty image"),
        ("ENV A=1\nFROM x\n", "line 1: ENV A=1: comes before FROM"),
        ("ARG B\nFROM $B\n", "is no empty image"),
    ],
)
def test_refused_from(start: str, reason: str, context: Path) -> None:
    with pytest.raises(Unsupported, match=reason):
        read(context, "", start=start)


def test_no_dockerfile(context: Path) -> None:
    with pytest.raises(TaskInvalid, match="there is no Dockerfile"):
        read_recipe(context, is_writable)


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz"])
def test_archives_are_unpacked_by_add_and_so_refused(kind: str, context: Path) -> None:
    with tarfile.open(context / "x.tar", kind) as tar:  # type: ignore[call-overload]
        tar.addfile(tarfile.TarInfo("inside"), io.BytesIO())
    with pytest.raises(Unsupported, match=r"x\.tar is an archive"):
        read(context, "ADD x.tar /x/")
    assert files(read(context, "COPY x.tar /x/")) == {"/x/x.tar": "x.tar"}


def test_links_in_the_context(context: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (context / "inside").symlink_to("a.txt")
    (context / "leaves").symlink_to(tmp_path / "outside")
    (context / "dangling").symlink_to("nothing")
    recipe = read(context, "COPY inside /x")
    assert [each.source for each in recipe.entries] == [context.resolve() / "a.txt"]
    for name, reason in (
        ("leaves", "a link that leaves the build context"),
        ("dangling", "a link to nothing"),
    ):
        with pytest.raises(Unsupported, match=reason):
            read(context, f"COPY {name} /x")
    with pytest.raises(Unsupported, match="is a link, which is not copied here"):
        read(context, "COPY . /x")


def test_digest_names_what_is_in_it(context: Path) -> None:
    first = read(context, "COPY a.txt /x").digest
    assert read(context, "COPY a.txt /x").digest == first
    assert read(context, "COPY a.txt /y").digest != first
    (context / "a.txt").write_text("other")
    assert read(context, "COPY a.txt /x").digest != first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\\\nB", [(1, "AB")]),
        ("x 1 \\\n# no\n\n 2\ny", [(1, "X 1  2"), (5, "Y")]),
        ("# escape=`\nx C:\\ `\n y", [(2, "X C:\\  y")]),
        ("\ufeffx 1", [(1, "X 1")]),
        ("x 1 \\", [(1, "X 1")]),
        ("", []),
    ],
)
def test_lines(text: str, expected: list[tuple[int, str]]) -> None:
    assert [(each.line, str(each)) for each in parse(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A", "1"),
        ("${A}b", "1b"),
        ("$NO", ""),
        ("${NO:-x$A}", "x1"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${A:+y}", "y"),
        ("${EMPTY:+y}", ""),
        ("${EMPTY+y}", "y"),
        ("'$A'", "$A"),
        ('"$A \\"q\\" \\$A \\n"', '1 "q" $A \\n'),
        ("\\$A", "$A"),
        ("a\\ b", "a b"),
        ("$", "$"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "EMPTY": ""}) == expected


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-Za-z_]\w{0,8}\Z"),
        st.text(st.characters(exclude_characters="'\n\r\0", exclude_categories=["Cs", "Zl", "Zp"])),
        min_size=1,
    )
)
def test_single_quotes_keep_everything(values: dict[str, str]) -> None:
    rest = " ".join(f"{name}='{value}'" for name, value in values.items())
    assert {name: expand(value, {}) for name, value in assignments(rest)} == values


@given(st.text(max_size=60))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        words = split(text)
    except ValueError:
        return
    assert "".join(words).replace(" ", "") in "".join(text.split()) or any(c in text for c in "'\"\\")


@given(st.text(max_size=200))
def test_any_dockerfile_is_read_or_refused(text: str) -> None:
    for instruction in parse(text):
        assert instruction.line >= 1
        str(instruction), instruction.options()


@pytest.mark.parametrize(
    ("path", "writable"),
    [
        ("/app", True),
        ("/usr", False),
        ("/usr2", True),
        ("/lib/x", False),
        ("/etc/x", True),
        ("/etc/ssl/certs/x", False),
        ("/dev/x", False),
        ("/", True),
        ("/opt/x", True),
    ],
)
def test_what_belongs_to_a_box(path: str, writable: bool) -> None:
    assert is_writable(path) is writable
