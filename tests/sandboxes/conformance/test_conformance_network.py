"""A box's network: allowed hosts and nothing else, and what of it can change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_address

import pytest
from support.boxes import ok, sh
from support.gates import Server, fetch, own_address, serving, web

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC
from pytest_rlenv.sandboxes.network.gate import Gate
from pytest_rlenv.sandboxes.network.hosts import Address
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]


@pytest.fixture
def here() -> str:
    return own_address()


@pytest.fixture
def site(here: str) -> Iterator[Server]:
    with serving(web, here) as server:
        yield server


@pytest.fixture
def named(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name lead to this machine."""

    async def resolve(name: str) -> list[Address]:
        return [ip_address(here)]

    monkeypatch.setattr("pytest_rlenv.sandboxes.network.gate.Gate", partial(Gate, resolver=resolve))


def is_cut_off(box: Box, address: str, port: int) -> bool:
    """Return True if nothing is reached without the gate."""
    interfaces = ok(box, "cat /proc/net/dev").splitlines()[2:]
    direct = box.run(["bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"])
    return [each.split(":")[0].strip() for each in interfaces] == ["lo"] and direct.exit_code != 0


@pytest.mark.usefixtures("named")
def test_allowed_hosts_and_nothing_else(start: Start, here: str, site: Server) -> None:
    hosts = ("good.test", "*.wild.test", here)
    box = start(
        network=ALLOWLIST,
        allowed_hosts=hosts,
        later_networks=frozenset({NO_NETWORK}),
        env={"https_proxy": "http://own:1"},
    )
    assert ok(box, "echo $https_proxy") == "http://own:1\n"  # the task's own say counts
    assert sh(box, "echo $http_proxy", env={"http_proxy": "x"}).stdout == b"x\n"
    for name in ("good.test", "a.b.wild.test", here):
        assert fetch(box, name, site.port).endswith("hello")
    for name in ("evil.test", "wild.test", "x.good.test", "evil.test"):
        answer = fetch(box, name, site.port)
        assert "HTTP/1.1 403 Forbidden" in answer
        assert answer.endswith(
            f"pytest-rlenv: {name}:{site.port} is not allowed: the task allows {', '.join(hosts)}\n"
        )
    assert box.take_denied() == {
        f"evil.test:{site.port}": 2,
        f"wild.test:{site.port}": 1,
        f"x.good.test:{site.port}": 1,
    }
    assert box.take_denied() == {}
    assert is_cut_off(box, here, site.port)
    box.quiesce()
    assert fetch(box, "good.test", site.port).endswith("hello")

    box.set_network(NO_NETWORK)
    assert is_cut_off(box, here, site.port)
    assert "hello" not in fetch(box, "good.test", site.port)
    box.set_network(ALLOWLIST, ["evil.test", here])
    assert fetch(box, "evil.test", site.port).endswith("hello")
    assert "403 Forbidden" in fetch(box, "good.test", site.port)
    assert is_cut_off(box, here, site.port)


def test_boxes_do_not_share_their_gates(start: Start, here: str, site: Server) -> None:
    one, other = start(network=ALLOWLIST, allowed_hosts=(here,)), start(network=ALLOWLIST)
    assert fetch(one, here, site.port).endswith("hello")
    assert "the task allows no hosts at all" in fetch(other, here, site.port)
    one.destroy()
    assert other.take_denied() == {f"{here}:{site.port}": 1}


def test_changes_that_cannot_be_made_are_refused_before_the_start(start: Start, sandbox: Sandbox) -> None:
    can = sandbox.capabilities
    assert (
        {NO_NETWORK, ALLOWLIST} <= can.switches_network <= can.network_modes == {*can.network_modes, PUBLIC}
    )
    for one, other in ((PUBLIC, NO_NETWORK), (PUBLIC, ALLOWLIST), (ALLOWLIST, PUBLIC), (NO_NETWORK, PUBLIC)):
        if not {one, other} <= can.switches_network:
            with pytest.raises(Unsupported, match=f"changes its network between .*{one}"):
                start(network=one, later_networks=frozenset({other}))


def test_a_mode_that_nobody_has_is_refused(start: Start) -> None:
    for spec in ({"network": "carrier-pigeon"}, {"later_networks": frozenset({"carrier-pigeon"})}):
        with pytest.raises(Unsupported, match="task asks for network mode 'carrier-pigeon'"):
            start(**spec)
