from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_rlenv.environments.model import HUB, LOCAL
from pytest_rlenv.environments.spec import Spec, parse_spec
from pytest_rlenv.errors import SpecError

SHA = "0123456789abcdef0123456789abcdef01234567"
SITE = "https://huggingface.co/datasets/org/repo"


@pytest.mark.parametrize(
    ("text", "revision", "subpath"),
    [
        ("org/repo", None, ""),
        ("org/repo/", None, ""),
        ("  org/repo  ", None, ""),
        ("org/repo@v1", "v1", ""),
        ("org/repo@v1/", "v1", ""),
        ("org/repo@v1.0/tasks/a", "v1.0", "tasks/a"),
        ("org/repo/tasks", None, "tasks"),
        ("org/repo/./tasks//a/", None, "tasks/a"),
        ("org/repo/tasks/a/task.toml", None, "tasks/a"),
        (f"org/repo@{SHA}", SHA, ""),
        (f"org/repo@{SHA.upper()}", SHA, ""),
        ("org/repo@refs/pr/12", "refs/pr/12", ""),
        ("org/repo@refs/pr/12/tasks/a", "refs/pr/12", "tasks/a"),
        ("org/repo@refs/pr/12a", "refs", "pr/12a"),
        ("org/repo@refs/convert/parquet/x", "refs/convert/parquet", "x"),
        ("org/repo@feature/x", "feature", "x"),
        ("org/repo@feature%2Fx/y", "feature/x", "y"),
        ("org/repo@v1@2", "v1@2", ""),
        ("org/repo/a@b", None, "a@b"),
        ("datasets/org/repo@v1", "v1", ""),
        ("hf://datasets/org/repo", None, ""),
        ("hf://datasets/org/repo@v1/tasks/a", "v1", "tasks/a"),
        ("hf://datasets/org/repo@refs/pr/1/tasks", "refs/pr/1", "tasks"),
        (SITE, None, ""),
        (f"{SITE}/", None, ""),
        (f"{SITE}.git", None, ""),
        (f"{SITE}@v1", "v1", ""),
        (f"{SITE}?library=harbor#readme", None, ""),
        (f"{SITE}/tree/main", "main", ""),
        (f"{SITE}/tree/main/tasks/my%20task", "main", "tasks/my task"),
        (f"{SITE}/tree/feature%2Fx/tasks", "feature/x", "tasks"),
        (f"{SITE}/tree/refs%2Fpr%2F1/tasks", "refs/pr/1", "tasks"),
        (f"{SITE}/tree/refs/pr/1/tasks", "refs/pr/1", "tasks"),
        (f"{SITE}/tree/refs%2Fpr%2F1", "refs/pr/1", ""),
        (f"{SITE}/blob/v1/tasks/a/task.toml", "v1", "tasks/a"),
        (f"{SITE}/blob/main/README.md", "main", ""),
        (f"{SITE}/resolve/main/tasks/a/tests/test.sh?download=true", "main", "tasks/a/tests"),
        ("http://huggingface.co/datasets/org/repo", None, ""),
        ("HTTPS://HuggingFace.co/datasets/org/repo", None, ""),
        ("huggingface.co/datasets/org/repo/tree/v1", "v1", ""),
        ("hf.co/datasets/org/repo", None, ""),
        ("https://hf.co/datasets/org/repo", None, ""),
        ("https://www.huggingface.co/datasets/org/repo", None, ""),
    ],
)
def test_names_of_datasets(text: str, revision: str | None, subpath: str, tmp_path: Path) -> None:
    assert parse_spec(text, tmp_path) == Spec(
        text, HUB, repo_id="org/repo", revision=revision, subpath=subpath
    )


@pytest.mark.parametrize(
    ("text", "revision", "subpath"),
    [
        ("spaces/org/app", None, ""),
        ("spaces/org/app@v1/envs", "v1", "envs"),
        ("hf://spaces/org/app", None, ""),
        ("https://huggingface.co/spaces/org/app", None, ""),
        ("https://huggingface.co/spaces/org/app/tree/main/envs", "main", "envs"),
    ],
)
def test_names_of_spaces(text: str, revision: str | None, subpath: str, tmp_path: Path) -> None:
    assert parse_spec(text, tmp_path) == Spec(
        text, HUB, repo_id="spaces/org/app", revision=revision, subpath=subpath
    )


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("https://hub.corp.example", "https://hub.corp.example/datasets/org/repo/tree/v1"),
        ("https://hub.corp.example", "hub.corp.example/datasets/org/repo/tree/v1"),
        ("http://localhost:8080/hf/", "http://localhost:8080/hf/datasets/org/repo/tree/v1"),
        ("http://localhost:8080/hf", "https://huggingface.co/datasets/org/repo/tree/v1"),
    ],
)
def test_addresses_on_an_own_hub(
    endpoint: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    spec = parse_spec(text, tmp_path)
    assert (spec.repo_id, spec.revision) == ("org/repo", "v1")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "empty", "org/repo"),
        ("   ", "empty", "org/repo"),
        ("org/re\npo", "control characters", "quoting"),
        ("hf://org/repo", "is a model on the Hub", "hf://datasets/org/repo"),
        ("hf://models/org/repo", "is a model on the Hub", "hf://datasets/org/repo"),
        ("hf://buckets/org/b", "is a bucket on the Hub", "hf://datasets/org/b"),
        ("hf://", "names no repository", "write org/repo"),
        ("https://huggingface.co/org/repo", "is a model on the Hub", "hf://datasets/org/repo"),
        ("https://huggingface.co/org/repo/tree/main", "is a model on the Hub", "hf://datasets/org/repo"),
        ("https://huggingface.co/spaces", "names no repository", "org/repo"),
        ("https://huggingface.co/blog/rl-environments", "not the page of a dataset", "org/repo"),
        ("https://huggingface.co/datasets", "names no repository", "org/repo"),
        ("https://huggingface.co/", "not the page of a dataset", "org/repo"),
        ("https://huggingface.co/datasets/squad", "names no repository", "org/repo"),
        (f"{SITE}/viewer/default/train", "'viewer' page", "org/repo"),
        (f"{SITE}/discussions/1", "'discussions' page", "org/repo"),
        ("https://github.com/org/repo", "not an address on the Hub", "clone"),
        ("https://[bad/datasets/org/repo", "is not a URL", "org/repo"),
        ("ftp://huggingface.co/datasets/org/repo", "not an address on the Hub", "org/repo"),
        ("github.com/org/repo", "repository on github.com", "clone"),
        ("org/repo/../x", "leaves the repository", "below"),
        ("org/repo@main/../x", "leaves the repository", "below"),
        (f"{SITE}/tree/main/%2e%2e/x", "leaves the repository", "below"),
        ("org/repo@", "asks for ''", "org/repo"),
        ("org/repo@a b", "cannot be a branch", "org/repo"),
        ("org/repo@a..b", "cannot be a branch", "org/repo"),
        ("org/a--b", "cannot be the name", "--"),
        ("org/a.git", "cannot be the name", ".git"),
        (f"org/{'a' * 93}", "cannot be the name", "96"),
        ("org/-repo", "neither a folder nor a Hub dataset", "org/repo"),
        ("org/.repo", "neither a folder nor a Hub dataset", "org/repo"),
        ("órg/repo", "neither a folder nor a Hub dataset", "org/repo"),
        ("repo", "neither a folder nor a Hub dataset", "looked in"),
        ("./missing", "there is no folder './missing'", "looked in"),
        ("/no/such/folder", "there is no folder", "looked in"),
        ("~nobody-of-this-name/x", "there is no folder", "looked in"),
        ("x" * 5000, "neither a folder nor a Hub dataset", "org/repo"),
    ],
)
def test_what_is_refused(text: str, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        parse_spec(text, tmp_path)
    assert message in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("org/repo", "org/repo"),
        ("./org", "org"),
        (".", ""),
        ("org/../org/repo/", "org/repo"),
        ("huggingface.co/datasets/a/b", "huggingface.co/datasets/a/b"),
    ],
)
def test_a_folder_wins(text: str, where: str, tmp_path: Path) -> None:
    (tmp_path / where).mkdir(parents=True, exist_ok=True)
    (tmp_path / "org/repo").mkdir(parents=True, exist_ok=True)
    assert parse_spec(text, tmp_path) == Spec(text, LOCAL, path=tmp_path / where)


def test_absolute_and_home_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "envs").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for text in ("~/envs", str(tmp_path / "envs")):
        assert parse_spec(text, Path("/")).path == tmp_path / "envs"


def test_a_file_is_refused_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/task.toml").touch()
    with pytest.raises(SpecError) as raised:
        parse_spec("a/task.toml", tmp_path)
    assert raised.value.hint.endswith(str(tmp_path / "a"))


@pytest.mark.parametrize("text", ["envirnments", "./envirnments"])
def test_a_mistyped_folder_gets_the_near_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    with pytest.raises(SpecError) as raised:
        parse_spec(text, tmp_path)
    assert "did you mean environments?" in raised.value.hint


PIECES = [
    "hf://",
    "https://",
    "huggingface.co",
    "hf.co/",
    "datasets",
    "spaces",
    "org",
    "repo",
    "tree",
    "blob",
]
PIECES += ["/", "@", "..", "refs/pr/1", "%2F", "%00", "?", "#", "[", "]", "~", ".", "\\", ":", " ", "\ud800"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(PIECES), max_size=9).map("".join),
        st.text().map("org/repo@{}".format),
    )
)
@example("https://[::1")
@example("https://huggingface.co:port/datasets/org/repo")
@example("~\x00")
@example("~" + "x" * 300)
@example("org/repo/" + "\ud800")
def test_any_text_is_a_spec_or_an_error_of_ours(tmp_path: Path, text: str) -> None:
    try:
        spec = parse_spec(text, tmp_path)
    except SpecError:
        return
    if spec.kind == LOCAL:
        assert spec.path is not None
        assert spec.path.is_absolute()
    else:
        assert spec.repo_id is not None
        assert spec.repo_id.count("/") == 1
        assert ".." not in spec.subpath.split("/")
        assert spec.revision != ""
