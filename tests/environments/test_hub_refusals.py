"""Each way in which the Hub can refuse has its own message with the cure."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.environments import Resolve, ids, repo_files
from support.fake_hub import FakeHub

from pytest_rlenv.errors import DiskFull, SpecError, Stage

TOKEN = "hf_aVerySecretToken"
Break = Callable[[FakeHub], object]


def refusal(resolve_one: Resolve, spec: str) -> SpecError:
    with pytest.raises(SpecError) as raised:
        resolve_one(spec)
    error = raised.value
    assert TOKEN not in f"{error.message} {error.hint} {error.detail}"
    assert "\n" not in error.message
    assert error.hint
    return error


ANONYMOUS: list[tuple[str, Break, str, str, str]] = [
    (
        "missing",
        lambda hub: None,
        "org/nope",
        "dataset org/nope is not found without a token",
        "set HF_TOKEN",
    ),
    (
        "missing, and no folder either",
        lambda hub: None,
        "org/nope/tasks",
        "missing, or private, and there is no folder 'org/nope/tasks' here",
        "check its name",
    ),
    (
        "private",
        lambda hub: hub.add("org/priv", {}, private=True),
        "org/priv",
        "missing, or private",
        "set HF_TOKEN",
    ),
    (
        "a model",
        lambda hub: hub.add_other("model", "org/m"),
        "org/m",
        "org/m is a model on the Hub",
        "name a dataset",
    ),
    (
        "a Space",
        lambda hub: hub.add_other("space", "org/s"),
        "org/s",
        "org/s is a Space on the Hub",
        "for a Space, write spaces/org/s",
    ),
    (
        "gated",
        lambda hub: hub.add("org/gated", repo_files("a"), gated="auto"),
        "org/gated",
        "org/gated is gated",
        "/datasets/org/gated with an account, then set HF_TOKEN",
    ),
    (
        "gated without a card",
        lambda hub: hub.add("org/gated", {"tasks/a/task.toml": ""}, gated="manual"),
        "org/gated",
        "org/gated is gated",
        "accept its terms",
    ),
    (
        "disabled",
        lambda hub: hub.add("org/off", repo_files("a"), disabled=True),
        "org/off",
        "org/off is disabled by the Hub",
        "another dataset",
    ),
    (
        "revision",
        lambda hub: hub.tag("org/repo", "v1"),
        "org/repo@v2",
        "no branch, tag or commit 'v2'",
        "it has main, v1",
    ),
    (
        "short commit",
        lambda hub: None,
        "org/repo@0123abc",
        "no branch, tag or commit '0123abc'",
        "it has main",
    ),
    ("unknown commit", lambda hub: None, f"org/repo@{'0' * 40}", f"commit '{'0' * 40}'", "it has main"),
    (
        "folder",
        lambda hub: None,
        "org/repo/task",
        "there is no 'task' in org/repo@",
        "it has README.md, tasks/",
    ),
    (
        "nothing found",
        lambda hub: hub.add("org/rows", {"data/train.parquet": "", "README.md": ""}),
        "org/rows",
        "0 tasks found in org/rows@",
        "it holds rows (data/train.parquet)",
    ),
    (
        "only deep tasks",
        lambda hub: hub.add("org/deep", {"1/2/3/4/5/6/7/task.toml": ""}),
        "org/deep",
        "0 tasks found",
        "7 folders deep",
    ),
    (
        "forbidden",
        lambda hub: hub.fail("/api/datasets", times=-1, status=403, headers={"X-Error-Message": "No"}),
        "org/repo",
        "org/repo may not be read without a token (No)",
        "set HF_TOKEN",
    ),
    (
        "teapot",
        lambda hub: hub.fail("/api/datasets", times=-1, status=418),
        "org/repo",
        "refuses org/repo: 418",
        "HF_ENDPOINT",
    ),
    (
        "down",
        lambda hub: hub.fail("", times=-1, status=503),
        "org/repo",
        "is out of order: it answers 503",
        "later",
    ),
    ("silent", lambda hub: hub.stop(), "org/repo", "does not answer (ConnectError", "HF_ENDPOINT"),
    (
        "no Hub: a page",
        lambda hub: hub.fail("", times=-1, status=200, body=b"<html>Welcome</html>"),
        "org/repo",
        "is not a Hugging Face Hub (JSONDecodeError",
        "check HF_ENDPOINT",
    ),
    (
        "no Hub: other JSON",
        lambda hub: hub.fail("", times=-1, status=200, body=b"[1]"),
        "org/repo",
        "is not a Hugging Face Hub",
        "HF_ENDPOINT",
    ),
    (
        "no Hub: no headers",
        lambda hub: hub.fail("/resolve/", times=-1, status=200, body=b"x"),
        "org/repo",
        "is not a Hugging Face Hub (",
        "HF_ENDPOINT",
    ),
    (
        "limited for long",
        lambda hub: hub.limit_rate("/api/datasets", times=-1, seconds=280),
        "org/repo",
        "limits our rate (429): try again in 280 s",
        "set HF_TOKEN",
    ),
    (
        "limited while listing",
        lambda hub: hub.limit_rate("/tree/", times=-1, seconds=99),
        "org/repo",
        "limits our rate (429): try again in 99 s",
        "set HF_TOKEN",
    ),
    (
        "limited without a time",
        lambda hub: hub.fail("/api/datasets", times=-1, status=429),
        "org/repo",
        "limits our rate (429)",
        "set HF_TOKEN",
    ),
    (
        "limited while downloading",
        lambda hub: hub.limit_rate("/resolve/", times=-1),
        "org/repo",
        "limits our rate (429)",
        "set HF_TOKEN",
    ),
]


@pytest.mark.parametrize(
    ("break_it", "spec", "message", "hint"), [pytest.param(*case[1:], id=case[0]) for case in ANONYMOUS]
)
def test_without_a_token(
    break_it: Break, spec: str, message: str, hint: str, hub: FakeHub, resolve_one: Resolve, naps: list[float]
) -> None:
    hub.add("org/repo", repo_files("a"))
    break_it(hub)
    error = refusal(resolve_one, spec)
    assert message in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    ("break_it", "spec", "message", "hint"),
    [
        (lambda hub: None, "org/nope", "org/nope is not found for your token", "that your token may read it"),
        (lambda hub: hub.add("org/priv", {}, private=True), "org/priv", "missing, or private", "may read it"),
        (
            lambda hub: hub.add("org/g", repo_files("a"), gated="auto"),
            "org/g",
            "org/g is gated",
            "the account of your token",
        ),
        (
            lambda hub: hub.limit_rate("/api/", times=-1, seconds=99),
            "org/repo",
            "try again in 99 s",
            "fewer tasks",
        ),
        (
            lambda hub: hub.fail("/api/", times=-1, status=403),
            "org/repo",
            "token may not read org/repo",
            "org's",
        ),
    ],
)
def test_with_a_token(
    break_it: Break,
    spec: str,
    message: str,
    hint: str,
    hub: FakeHub,
    resolve_one: Resolve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add_token(TOKEN)
    hub.add("org/repo", repo_files("a"))
    break_it(hub)
    error = refusal(resolve_one, spec)
    assert message in error.message
    assert hint in error.hint


def test_a_token_opens_private_and_gated_repositories(
    hub: FakeHub, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add_token(TOKEN, reads=["org/priv", "org/gated"])
    hub.add("org/priv", repo_files("a"), private=True)
    hub.add("org/gated", repo_files("a"), gated="manual")
    assert ids(resolve_one("org/priv")) == ids(resolve_one("org/gated")) == ["a"]


def test_a_bad_token(hub: FakeHub, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add("org/repo", repo_files("a"))
    error = refusal(resolve_one, "org/repo")
    assert error.message.startswith("the Hub does not know your token (Invalid credentials")
    assert "renew HF_TOKEN" in error.hint


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("127.0.0.1:1", "is not a Hugging Face Hub"),
        ("http://no-such-host.invalid", "does not answer"),
        ("http://127.0.0.1:1", "does not answer (ConnectError"),
    ],
)
def test_a_wrong_endpoint(
    endpoint: str, message: str, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch, naps: list[float]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    error = refusal(resolve_one, "org/repo")
    assert endpoint in error.message
    assert message in error.message
    assert "HF_ENDPOINT" in error.hint


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        (lambda hub: hub.limit_rate("/api/datasets/org/repo", times=1, seconds=7), [8.0]),
        (lambda hub: hub.fail("/api/", times=1, status=429, headers={"Retry-After": "5"}), [6.0]),
        (lambda hub: hub.fail("/api/datasets/org/repo", times=2, status=502), [1.0, 2.0]),
        (lambda hub: hub.fail("paths-info", times=2, status=500), [1.0, 2.0]),
        (lambda hub: hub.fail("/tree/", times=1, status=504), [1.0]),
        (lambda hub: hub.fail("/resolve/", times=1, status=503), []),
    ],
)
def test_what_passes_soon_is_waited_for(
    fault: Break, waits: list[float], hub: FakeHub, resolve_one: Resolve, naps: list[float]
) -> None:
    hub.add("org/repo", repo_files("a"))
    fault(hub)
    told: list[str] = []
    assert ids(resolve_one("org/repo", notify=told.append)) == ["a"]
    assert naps == waits
    assert len(told) <= len(waits)


def test_a_wait_is_told(hub: FakeHub, resolve_one: Resolve, naps: list[float]) -> None:
    hub.add("org/repo", repo_files("a"))
    hub.limit_rate("/api/datasets/org/repo", seconds=7)
    told: list[str] = []
    resolve_one("org/repo", notify=told.append)
    assert told == [f"{hub.endpoint} is busy: waiting 8 s"]


def test_a_wait_inside_the_client_is_told_once(
    hub: FakeHub, resolve_one: Resolve, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_rlenv.environments.hub_waits import RelayedWaits

    monkeypatch.setattr(RelayedWaits, "_last_told", float("-inf"))
    hub.add("org/repo", repo_files("a"))
    hub.limit_rate("HEAD .*/resolve/", times=3, seconds=200)
    told: list[str] = []
    resolve_one("org/repo", notify=told.append)
    assert naps == [201.0] * 2  # the client does not wait after the first
    assert told == ["the Hub limits our rate: waiting 201 s (a token raises the limit)"]


# ---- without the Hub


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda hub: hub.stop(), "does not answer"),
        (lambda hub: hub.fail("", times=-1, status=503), "is out of order: it answers 503"),
        (lambda hub: hub.limit_rate("", times=-1, seconds=200), "limits our rate (429)"),
    ],
)
def test_the_last_known_commit_is_used_when_the_hub_is_silent(
    fault: Break, reason: str, hub: FakeHub, resolve_one: Resolve, naps: list[float]
) -> None:
    sha = hub.add("org/repo", repo_files("a"))
    resolve_one("org/repo")
    hub.commit("org/repo", repo_files("b"))
    fault(hub)
    environment = resolve_one("org/repo")
    assert (environment.revision, ids(environment)) == (sha, ["a"])
    (warning,) = environment.warnings
    assert reason in warning
    assert warning.endswith(f"using the cached commit {sha[:12]}")
    assert resolve_one(f"org/repo@{sha}").warnings == ()


@pytest.mark.parametrize(
    "fault", [lambda hub: hub.fail("", times=-1, status=403), lambda hub: hub.add_token(TOKEN)]
)
def test_what_does_not_pass_is_not_papered_over_by_the_cache(
    fault: Break, hub: FakeHub, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/repo", repo_files("a"))
    resolve_one("org/repo")
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    fault(hub)
    refusal(resolve_one, "org/repo")


def test_offline_from_our_cache(hub: FakeHub, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = hub.add("org/repo", repo_files("a"))
    hub.tag("org/repo", "v1")
    for spec in ("org/repo", "org/repo@v1"):
        resolve_one(spec)
    hub.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for spec in ("org/repo", "org/repo@v1"):
        environment = resolve_one(spec)
        assert ids(environment) == ["a"]
        assert environment.warnings == (
            f"org/repo: HF_HUB_OFFLINE is set; using the cached commit {sha[:12]}",
        )
    assert resolve_one(f"org/repo@{sha}").warnings == ()
    assert hub.count() == 0


@pytest.mark.parametrize("keep_tree", [True, False])
def test_offline_from_the_hugging_face_cache(
    keep_tree: bool, hub: FakeHub, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import snapshot_download

    from pytest_rlenv.environments.hub_client import HubClient

    sha = hub.add("org/repo", repo_files("a", "b"))
    cache = HubClient().cache_dir
    snapshot_download("org/repo", repo_type="dataset", endpoint=hub.endpoint, cache_dir=cache)
    if not keep_tree:  # as versions of the client before 1.22 left it
        from huggingface_hub import _tree_cache

        _tree_cache._IN_MEMORY_TREE_CACHE.clear()
        (cache / f"datasets--org--repo/trees/{sha}.json").unlink()
    hub.stop()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for spec in ("org/repo", f"org/repo@{sha}"):
        environment = resolve_one(spec)
        assert (environment.revision, ids(environment)) == (sha, ["a", "b"])
        assert environment.tags == ("rl-environment", "harbor")


@pytest.mark.parametrize(
    ("spec", "wanted", "command"),
    [
        ("org/repo", "org/repo", "hf download org/repo --repo-type dataset"),
        ("org/repo@v9", "org/repo@v9", "hf download org/repo --repo-type dataset --revision v9"),
        (f"org/repo@{'1' * 40}", f"org/repo@{'1' * 40}", f"--revision {'1' * 40}"),
    ],
)
def test_offline_and_not_cached(
    spec: str, wanted: str, command: str, resolve_one: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error = refusal(resolve_one, spec)
    assert error.message == f"offline (HF_HUB_OFFLINE), and {wanted} is not cached"
    assert error.hint.endswith(command)


# ---- settings that the client freezes when it is imported

CHILD = """
import sys
from pathlib import Path
from pytest_rlenv.environments.resolve import Selection, fetch, resolve
from pytest_rlenv.errors import RlenvError
where = Path(sys.argv[1])
try:
    places = {"base": where, "rootdir": where, "cache_dir": where / "cache"}
    for environment in resolve(sys.argv[2:], **places, selection=Selection()):
        print(environment.title, *(task.id for task in environment.tasks))
        fetch(environment, environment.tasks, where / "cache")
except RlenvError as error:
    print(type(error).__name__, error.message)
print("imported" if "huggingface_hub" in sys.modules else "not imported")
"""


def child(
    hub: FakeHub, where: Path, *specs: str, token: str | None = None, offline: bool = False
) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, str(where), *specs],
        env={**os.environ, **hub.environ(where, token=token, offline=offline)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""  # no progress bars, no warnings
    return done.stdout.splitlines()


def test_in_a_process_of_its_own(hub: FakeHub, tmp_path: Path) -> None:
    sha = hub.add("org/repo", repo_files("a", "b"))
    listed = f"org/repo@{sha[:12]} a b"
    assert child(hub, tmp_path, "org/repo") == [listed, "imported"]
    assert (tmp_path / "cache/hub/org--repo" / sha / "tasks/a/task.toml").is_file()
    assert (tmp_path / "hf/hub/datasets--org--repo").is_dir()
    hub.clear()
    assert child(hub, tmp_path, f"org/repo@{sha}") == [listed, "not imported"]
    assert child(hub, tmp_path, "org/repo", offline=True)[0] == listed
    assert hub.count() == 0
    assert child(hub, tmp_path, "org/repo") == [listed, "imported"]
    assert hub.count() == 1


def test_a_token_in_a_process_of_its_own(hub: FakeHub, tmp_path: Path) -> None:
    hub.add_token(TOKEN, reads=["org/priv"])
    hub.add("org/priv", repo_files("a"), private=True)
    assert child(hub, tmp_path, "org/priv")[0].startswith(
        "SpecError dataset org/priv is not found without a token"
    )
    assert child(hub, tmp_path, "org/priv", token=TOKEN)[0].startswith("org/priv@")
    assert {request.token for request in hub.log} == {None, TOKEN}


# ---- errors that a server cannot easily be made to cause


def explained(error: BaseException) -> tuple[str, str, bool]:
    from pytest_rlenv.environments.hub_client import HubClient
    from pytest_rlenv.environments.hub_errors import Asked, explain

    refusal = explain(error, HubClient(), Asked("org/repo", "v1", folder="tasks/a/x"))
    return refusal.message, refusal.hint, refusal.one_file


def test_a_full_disk_is_an_error_of_its_own() -> None:
    from huggingface_hub import errors

    for error in (
        OSError(28, "No space left on device", "/hub/x"),
        OSError(122, "Disk quota exceeded", "/hub/x"),
        errors.XetDownloadError("IO Error: No space left on device (os error 28)"),
    ):
        with pytest.raises(DiskFull, match="cannot store tasks/a/x: no space left at /") as caught:
            explained(error)
        assert "HF_HOME" in caught.value.hint
        assert caught.value.stage is Stage.FETCH


def test_a_file_that_cannot_be_stored_concerns_all() -> None:
    message, hint, one_file = explained(OSError(5, "Input/output error"))
    assert message == "tasks/a/x could not be stored: [Errno 5] Input/output error"
    assert "permissions" in hint
    assert not one_file


def test_an_incomplete_file_concerns_itself() -> None:
    message, _, one_file = explained(
        OSError("Consistency check failed: file should be of size 5 but has size 3")
    )
    assert message.startswith("tasks/a/x came incomplete: Consistency check failed")
    assert one_file


def test_the_store_of_large_files() -> None:
    from huggingface_hub import errors

    message, hint, one_file = explained(errors.XetDownloadError("no chunk"))
    assert message == "tasks/a/x failed to come from the Xet store: no chunk"
    assert "HF_HUB_DISABLE_XET=1" in hint
    assert one_file


def test_a_client_that_was_imported_offline() -> None:
    from huggingface_hub import errors

    for error in (errors.OfflineModeIsEnabled("no"), errors.LocalEntryNotFoundError("no")):
        message, hint, _ = explained(error)
        assert message == "offline (HF_HUB_OFFLINE), and tasks/a/x is not cached"
        assert hint.endswith("hf download org/repo --repo-type dataset --revision v1")


def test_a_mistake_of_our_own_is_not_explained_away() -> None:
    with pytest.raises(ZeroDivisionError):
        explained(ZeroDivisionError())


def test_an_answer_without_a_commit(hub: FakeHub, resolve_one: Resolve) -> None:
    hub.fail("", times=-1, status=200, body=b'{"id": "org/repo"}')
    assert (
        "is not a Hugging Face Hub (ValueError: the answer has no commit)"
        in refusal(resolve_one, "org/repo").message
    )


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"HF_HUB_CACHE": "/a/hub", "HF_HOME": "/b"}, "/a/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "/a/old", "HF_HOME": "/b"}, "/a/old"),
        ({"HF_HOME": "$RLENV_TEST_HOME/hf"}, "/home/x/hf/hub"),
        ({"HF_HOME": "~/hf"}, "/home/x/hf/hub"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
        ({}, "/home/x/.cache/huggingface/hub"),
    ],
)
def test_where_the_hugging_face_cache_is(
    variables: dict[str, str], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_rlenv.environments.hub_client import HubClient

    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv("RLENV_TEST_HOME", "/home/x")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert HubClient().cache_dir == Path(where)


@pytest.mark.parametrize(
    ("value", "offline"), [("1", True), ("true", True), ("YES", True), ("0", False), ("", False)]
)
def test_when_it_is_offline(value: str, offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_rlenv.environments.hub_client import HubClient

    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert HubClient().offline is offline
