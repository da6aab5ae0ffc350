"""What the Hub's refusals mean and what to do about each: one message per cause, never the token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_rlenv.disk import HUB_CURE, disk_full, is_full, says_full
from pytest_rlenv.environments.hub_reference import SPACES, download_command, kind_of
from pytest_rlenv.environments.hub_waits import is_network, rate_limit_wait
from pytest_rlenv.errors import FetchFailed, RlenvError, SpecError, Stage

if TYPE_CHECKING:
    from pytest_rlenv.environments.hub_client import HubClient

_SHOWN = 8
_LONGEST = 200


@dataclass(frozen=True)
class Asked:
    """What was asked of the Hub when it refused; ``""`` is the default branch, or all of the repository."""

    repo_id: str
    revision: str = ""
    folder: str = ""
    text: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why the Hub did not give what was asked.

    Attributes:
        message: what is wrong, in one line.
        hint: what to do about it.
        passing: it may go away by itself: an outage, a limit, no network. A cached copy is then good enough.
        one_file: it concerns the file that was asked for, and others may still be had.
    """

    message: str
    hint: str
    passing: bool = False
    one_file: bool = False

    def error(self, *, fetching: bool = False) -> SpecError | FetchFailed:
        """Return it as an error: while fetching, what may pass is the infrastructure's fault."""
        kind = FetchFailed if fetching and (self.passing or self.one_file) else SpecError
        return kind(self.message, hint=self.hint)


@contextmanager
def explaining(hub: HubClient, asked: Asked, *, fetching: bool = False) -> Iterator[None]:
    """Turn the client's errors inside the block into ours.

    Raises:
        SpecError: or, while fetching, :class:`FetchFailed` for what may pass by itself.
    """
    try:
        yield
    except RlenvError:
        raise
    except Exception as error:
        raise explain(error, hub, asked).error(fetching=fetching) from error


def explain(error: BaseException, hub: HubClient, asked: Asked) -> Refusal:
    """Say what an error of the client means.

    Args:
        error: anything that a call of the client raised; what is not known is raised again.
        hub: asked for names to suggest, if it answers.
        asked: what the call was about.

    Raises:
        DiskFull: there is no space left for what was asked.
    """
    from huggingface_hub import errors

    if isinstance(error, errors.LocalEntryNotFoundError):  # the client's wrapping of "could not ask"
        cause = error.__cause__
        return explain(cause, hub, asked) if isinstance(cause, Exception) else _not_cached(asked)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return _not_cached(asked)
    if isinstance(error, errors.HfHubHTTPError):
        return _answered(error, hub, asked)
    if is_network(error):
        return Refusal(
            f"{hub.endpoint} does not answer ({type(error).__name__}: {_first_line(error)})",
            "check the network and HF_ENDPOINT; what is cached also runs with HF_HUB_OFFLINE=1",
            passing=True,
        )
    if (isinstance(error, OSError) and is_full(error)) or (is_xet(error) and says_full(str(error))):
        place = getattr(error, "filename", None) or hub.cache_dir
        what = f"store {asked.folder or asked.repo_id}"
        raise disk_full(what, place, stage=Stage.FETCH, hint=HUB_CURE) from error
    if is_xet(error):
        return Refusal(
            f"{asked.folder or asked.repo_id} failed to come from the Xet store: {_first_line(error)}",
            "try again; HF_HUB_DISABLE_XET=1 downloads it the plain way",
            passing=True,
            one_file=True,
        )
    if isinstance(error, errors.FileMetadataError):
        return _no_hub(hub, _first_line(error))
    if (refusal := _not_stored(error, hub, asked)) is not None:
        return refusal
    if isinstance(error, (ValueError, TypeError, KeyError, AttributeError)) or _is_bad_address(error):
        return _no_hub(hub, f"{type(error).__name__}: {_first_line(error)}")
    raise error


def _not_stored(error: BaseException, hub: HubClient, asked: Asked) -> Refusal | None:
    """Return why what came could not be stored; ``None`` if that is not what is wrong."""
    if isinstance(error, ValueError) and str(error).startswith("Invalid filename"):
        return Refusal(
            f"{asked.repo_id} has a file whose path cannot be used: {_first_line(error)}",
            "the repository's owner must rename it",
        )
    if isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError)):
        return Refusal(
            f"{asked.folder or asked.repo_id} cannot be stored: it, or a folder above it, has the name of "
            f"another file ({_first_line(error)})",
            "the repository's owner must rename one of the two",
            one_file=True,
        )
    if isinstance(error, OSError) and error.errno is None:  # the client: its size is not what was announced
        what = asked.folder or asked.repo_id
        return Refusal(
            f"{what} came incomplete: {_first_line(error)}", "try again", passing=True, one_file=True
        )
    if isinstance(error, OSError):
        return Refusal(
            f"{asked.folder or asked.repo_id} could not be stored: {_first_line(error)}",
            f"check the permissions of {hub.cache_dir}",
            passing=True,
        )
    return None


def is_xet(error: BaseException) -> bool:
    """Whether the store of large files failed; not all versions of the client have a class for it."""
    return type(error).__name__ == "XetDownloadError"


def _answered(error: Exception, hub: HubClient, asked: Asked) -> Refusal:
    """Explain an answer with an error status."""
    from huggingface_hub import errors

    page = hub.page(asked.repo_id)
    if isinstance(error, errors.GatedRepoError):  # first: it is also a RepositoryNotFoundError
        how = (
            "the account of your token"
            if hub.has_token
            else "an account, then set HF_TOKEN (or hf auth login)"
        )
        return Refusal(f"{asked.repo_id} is gated", f"accept its terms at {page} with {how}")
    if isinstance(error, errors.DisabledRepoError):
        return Refusal(f"{asked.repo_id} is disabled by the Hub", f"see {page}")
    if isinstance(error, errors.RevisionNotFoundError):
        return _no_revision(hub, asked)
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return _no_folder(hub, asked)
    if isinstance(error, errors.RepositoryNotFoundError):
        return _no_repository(hub, asked)
    assert isinstance(error, errors.HfHubHTTPError)
    return _status(error, hub, asked)


def _status(error: Exception, hub: HubClient, asked: Asked) -> Refusal:
    from huggingface_hub.errors import HfHubHTTPError

    assert isinstance(error, HfHubHTTPError)
    status = error.response.status_code
    said = f" ({error.server_message.splitlines()[0]})" if error.server_message else ""
    request = f"; the Hub knows the request as {error.request_id}" if error.request_id else ""
    if status == 401:
        return Refusal(
            f"the Hub does not know your token{said}",
            "renew HF_TOKEN (or hf auth login); a bad token is refused even where none is needed",
        )
    if status == 403 and not hub.has_token:
        return Refusal(
            f"{asked.repo_id} may not be read without a token{said}", "set HF_TOKEN (or hf auth login)"
        )
    if status == 403:
        return Refusal(
            f"your token may not read {asked.repo_id}{said}",
            f"give it read access to the contents of {asked.repo_id.partition('/')[0]}'s repositories",
        )
    if status == 429:
        return _rate_limited(error, hub)
    if status >= 500 or status == 408:
        return Refusal(
            f"{hub.endpoint} is out of order: it answers {status}{said}",
            f"try again later{request}",
            passing=True,
        )
    return Refusal(f"{hub.endpoint} refuses {asked.repo_id}: {status}{said}", f"check HF_ENDPOINT{request}")


def _rate_limited(error: Exception, hub: HubClient) -> Refusal:
    from huggingface_hub.errors import HfHubHTTPError

    assert isinstance(error, HfHubHTTPError)
    wait = rate_limit_wait(error.response)
    when = "" if wait is None else f": try again in {wait:.0f} s"
    cure = (
        "wait, or fetch fewer tasks at once" if hub.has_token else "set HF_TOKEN: a token has a higher limit"
    )
    return Refusal(f"the Hub limits our rate (429){when}", cure, passing=True)


def _no_repository(hub: HubClient, asked: Asked) -> Refusal:
    other = hub.other_kind(asked.repo_id)
    if other:
        how = f"for a Space, write {SPACES}{asked.repo_id}" if other == "a Space" else "name a dataset"
        return Refusal(f"{asked.repo_id} is {other} on the Hub, and tasks are read from datasets", how)
    who = "for your token" if hub.has_token else "without a token"
    here = f", and there is no folder {asked.text!r} here" if asked.text.startswith(asked.repo_id) else ""
    cure = (
        "check its name, and that your token may read it"
        if hub.has_token
        else "check its name; if it is private, set HF_TOKEN (or hf auth login)"
    )
    kind, name = kind_of(asked.repo_id)
    return Refusal(f"{kind} {name} is not found {who}: missing, or private{here}", cure)


def _no_revision(hub: HubClient, asked: Asked) -> Refusal:
    names: list[str] = []
    with suppress(Exception):  # only words for the hint
        names = hub.branches_and_tags(asked.repo_id)
    return Refusal(
        f"{asked.repo_id} has no branch, tag or commit {asked.revision!r}",
        f"it has {_some(names)}" if names else "check its name; a commit is given with all of its 40 digits",
    )


def _no_folder(hub: HubClient, asked: Asked) -> Refusal:
    where = f"{asked.repo_id}@{asked.revision[:12]}" if asked.revision else asked.repo_id
    names: list[str] = []
    with suppress(Exception):  # only words for the hint
        names = [path + "/" * is_folder for path, is_folder in hub.entries(asked.repo_id, asked.revision, "")]
    return Refusal(
        f"there is no {asked.folder!r} in {where}",
        f"it has {_some(names)}" if names else f"look at {hub.page(asked.repo_id)}",
        one_file=True,
    )


def _not_cached(asked: Asked) -> Refusal:
    return Refusal(
        f"offline (HF_HUB_OFFLINE), and {asked.folder or asked.repo_id} is not cached",
        f"run once online, or: {download_command(asked.repo_id, asked.revision)}",
        passing=True,
        one_file=True,
    )


def _no_hub(hub: HubClient, why: str) -> Refusal:
    return Refusal(
        f"what answers at {hub.endpoint} is not a Hugging Face Hub ({why})", "check HF_ENDPOINT and the proxy"
    )


def _is_bad_address(error: BaseException) -> bool:
    return type(error).__name__ in ("InvalidURL", "UnsupportedProtocol")


def _first_line(error: BaseException) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _some(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
