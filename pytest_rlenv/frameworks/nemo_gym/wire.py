"""HTTP to a resources server: one client for each rollout, with its own cookies and our own deadlines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import SandboxFailed, Stage, StageTimeout, VerifierTimeout
from pytest_rlenv.frameworks.nemo_gym.deadline import Deadline
from pytest_rlenv.text import decode
from pytest_rlenv.verdict import number

if TYPE_CHECKING:
    from requests import Response, Session

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that are read."""
_CHUNK = 64 * 1024
_CONNECT = 10.0


@dataclass(frozen=True)
class Answer:
    """What a server answered.

    Attributes:
        status: the HTTP status.
        body: the body as text.
    """

    status: int
    body: str

    def json(self) -> Any:
        """Return the body as JSON; NaN and Infinity are taken as Python takes them.

        Raises:
            ValueError: it is none.
        """
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deeply") from None


class Wire:
    """A client of one server, for one rollout.

    Args:
        url: where the server is.
        lost: says why the server is gone, after a connection broke; for errors.
        hung: called when an answer did not come in time: the server may never answer anybody again.
    """

    def __init__(
        self, url: str, *, lost: Callable[[str, Stage], SandboxFailed], hung: Callable[[str], None]
    ) -> None:
        self._url = url
        self._lost = lost
        self._hung = hung
        self._deadline = Deadline()
        self._made: Session | None = None

    def get(self, path: str, *, limit: float, stage: Stage) -> Answer:
        """Ask for something; raises as :meth:`post` does."""
        return self._ask("GET", path, None, limit, stage, patient=True)

    def post(self, path: str, body: Any, *, limit: float, stage: Stage, patient: bool = True) -> Answer:
        """Send JSON and return the answer, whatever its status. Cookies are kept for later calls.

        Args:
            path: such as ``/verify``.
            body: what to send.
            limit: seconds for all of it.
            stage: where the rollout is.
            patient: False if this limit is shorter than what the server may take: then it does not hang.

        Raises:
            StageTimeout: the answer did not come in time. SandboxFailed: the server is gone, or answers
                something that is no HTTP, or too much.
        """
        return self._ask("POST", path, json.dumps(body).encode(), limit, stage, patient=patient)

    def close(self) -> None:
        """Let go of the connection."""
        if self._made is not None:
            self._made.close()

    def _session(self) -> Session:
        if self._made is None:
            from requests import Session

            from pytest_rlenv.frameworks.nemo_gym.timed_adapter import TimedAdapter

            self._made = Session()
            self._made.mount("http://", TimedAdapter(self._deadline))
            self._made.trust_env = False  # neither proxies nor passwords are for a server of this kind
        return self._made

    def _ask(
        self, method: str, path: str, data: bytes | None, limit: float, stage: Stage, *, patient: bool
    ) -> Answer:
        from requests.exceptions import RequestException, Timeout

        session = self._session()
        self._deadline.set(limit)
        headers = {"content-type": "application/json"} if data is not None else {}
        what = f"{method} {path}"
        try:
            with session.request(
                method,
                self._url + path,
                data=data,
                headers=headers,
                timeout=(min(limit, _CONNECT), limit),
                allow_redirects=False,
                stream=True,
            ) as response:
                return Answer(response.status_code, decode(_content(response, self._deadline, what, stage)))
        except Timeout:
            raise self._late(what, limit, stage, patient=patient) from None
        except RequestException as error:
            if self._deadline.is_over:  # the connection pool wraps a reading that took too long
                raise self._late(what, limit, stage, patient=patient) from None
            raise self._lost(what, stage) from error

    def _late(self, what: str, limit: float, stage: Stage, *, patient: bool) -> StageTimeout:
        if patient:
            self._hung(what)
        kind = VerifierTimeout if stage is Stage.VERIFY else StageTimeout
        return kind(
            f"{what} was not answered within {number(limit)} s",
            hint="see the server's log; --rlenv-timeout-multiplier gives it more time",
            stage=stage,
        )


def _content(response: Response, deadline: Deadline, what: str, stage: Stage) -> bytes:
    from requests.exceptions import Timeout

    chunks: list[bytes] = []
    size = 0
    for chunk in response.iter_content(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_ANSWER:
            raise SandboxFailed(f"{what} was answered with more than {LARGEST_ANSWER} bytes", stage=stage)
        if deadline.is_over:
            raise Timeout
    return b"".join(chunks)
