"""A socket that a box hands over: a server of this process is reached from the box, and nothing else is."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from support.boxes import ok
from support.gates import own_address, serving, web
from support.model_calls import ASK, Client, proxied, question
from support.sandbox_kinds import DOCKER, Kind
from support.scripted_model import ScriptedModel

from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.errors import Unsupported
from pytest_rlenv.model_proxy.proxy import ModelProxy
from pytest_rlenv.sandboxes.confinement import check_spec
from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC, BoxSpec
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]
CONNECT = r"CONNECT evil.test:443 HTTP/1.1\r\n\r\n"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(lambda seen: f"you said {seen.body['messages'][0]['content']}") as model:
        yield model


def ask(box: Box, endpoint: ModelEndpoint, say: str = "hello", key: str | None = None) -> str:
    """Return what a program in a box gets that calls the model."""
    port = endpoint.anthropic_base_url.rpartition(":")[2]
    shown = endpoint.key if key is None else key
    argv = ["bash", "-c", ASK, "ask", port, shown, "/v1/chat/completions", json.dumps(question(say=say))]
    done = box.run(argv, timeout=20)
    assert not done.timed_out
    return done.output.decode()


@contextlib.contextmanager
def boxed(start: Start, model: ScriptedModel, **spec: object) -> Iterator[tuple[Box, ModelProxy]]:
    with proxied(model.url) as (proxy, _):
        yield start(take_listener=proxy.take_listener, **spec), proxy


@pytest.mark.parametrize("network", [NO_NETWORK, ALLOWLIST, PUBLIC])
def test_a_program_reaches_the_model_in_every_network(
    network: str, start: Start, model: ScriptedModel
) -> None:
    with boxed(start, model, network=network) as (box, proxy):
        endpoint = proxy.endpoint(from_box=True)
        assert "you said hello" in ask(box, endpoint)
        assert "401 " in ask(box, endpoint, key="sk-of-another")
        box.quiesce()  # nothing in the box keeps the socket up
        assert "you said again" in ask(box, endpoint, "again")
        assert model.calls == 2


@pytest.mark.parametrize("network", [NO_NETWORK, ALLOWLIST])
def test_and_nothing_else_without_a_network(network: str, start: Start, model: ScriptedModel) -> None:
    here = own_address()
    with serving(web, here) as site, boxed(start, model, network=network) as (box, proxy):
        assert "you said hello" in ask(box, proxy.endpoint(from_box=True))
        interfaces = ok(box, "cat /proc/net/dev").splitlines()[2:]
        assert [each.split(":")[0].strip() for each in interfaces] == ["lo"]
        # neither this machine, nor the model's own server, nor the proxy as it is served to this process
        ports = [(here, site.port), ("127.0.0.1", model.port)]
        ports.append(("127.0.0.1", int(proxy.endpoint(from_box=False).anthropic_base_url.rpartition(":")[2])))
        for address, port in ports:
            assert box.run(["bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]).exit_code != 0
        assert not site.received


def test_each_box_has_its_own(start: Start, model: ScriptedModel) -> None:
    with boxed(start, model) as (one, first), boxed(start, model) as (other, second):
        assert "you said one" in ask(one, first.endpoint(from_box=True), "one")
        assert "you said other" in ask(other, second.endpoint(from_box=True), "other")
        swapped = replace(second.endpoint(from_box=True), key=first.endpoint(from_box=True).key)
        assert "401 " in ask(other, swapped)
        assert [proxy.take_turn().usage.answered for proxy in (first, second)] == [1, 1]


def test_a_change_of_network_leaves_it(start: Start, sandbox: Sandbox, model: ScriptedModel) -> None:
    later = [mode for mode in sorted(sandbox.capabilities.switches_network) if mode != NO_NETWORK]
    with boxed(start, model, later_networks=frozenset(later)) as (box, proxy):
        for mode in [*later, NO_NETWORK]:
            box.set_network(mode)
            assert f"you said {mode}" in ask(box, proxy.endpoint(from_box=True), mode)


def test_two_ways_out_at_once(start: Start, model: ScriptedModel) -> None:
    """The gate to allowed hosts and the model's server are beside each other."""
    with boxed(start, model, network=ALLOWLIST, allowed_hosts=("good.test",)) as (box, proxy):
        assert "you said hello" in ask(box, proxy.endpoint(from_box=True))
        gate = ok(box, "echo ${http_proxy#http://127.0.0.1:}").strip()
        talk = f"exec 3<>/dev/tcp/127.0.0.1/{gate}; printf '{CONNECT}' >&3; head -1 <&3"
        assert "403 Forbidden" in box.run(["bash", "-c", talk]).stdout.decode()
        assert box.take_denied() == {"evil.test:443": 1}


def test_the_socket_ends_with_the_proxy_and_the_box_goes_on(start: Start, model: ScriptedModel) -> None:
    with boxed(start, model) as (box, proxy):
        endpoint = proxy.endpoint(from_box=True)
    assert "you said" not in ask(box, endpoint)
    assert ok(box, "echo up") == "up\n"


def test_a_program_that_goes_away_ends_its_call(start: Start, model: ScriptedModel, kind: Kind) -> None:
    held = threading.Event()
    model.before_event = lambda number: number < 1 or held.wait(20)
    with boxed(start, model) as (box, proxy):
        endpoint = proxy.endpoint(from_box=True)
        port = endpoint.anthropic_base_url.rpartition(":")[2]
        body = json.dumps(question(stream=True))
        argv = ["bash", "-c", ASK, "ask", port, endpoint.key, "/v1/chat/completions", body]
        done = box.run(argv, timeout=1.0)
        assert done.timed_out
        held.set()
        assert ok(box, "echo up") == "up\n"
        client = Client(proxy.endpoint(from_box=False))
        assert client.ask().status == 200
        client.connection.close()
        assert [call.end.value for call in proxy.take_turn().all] == ["cut", "good"]


def test_a_box_that_has_to_be_started_again_hands_over_another(
    start: Start, model: ScriptedModel, kind: Kind
) -> None:
    if kind.name != DOCKER:
        pytest.skip("a local box ends with its first process")
    from pytest_rlenv.sandboxes.docker.box import DockerBox

    with boxed(start, model) as (box, proxy):
        assert isinstance(box, DockerBox)
        assert "you said hello" in ask(box, proxy.endpoint(from_box=True))
        kind.kill(box)
        box._start_again()
        assert "you said hello" in ask(box, proxy.endpoint(from_box=True))


def test_without_being_asked_no_box_listens(box: Box) -> None:
    assert ok(box, "cat /proc/net/tcp").splitlines()[1:] == []


def test_a_sandbox_that_cannot_says_so(sandbox: Sandbox) -> None:
    can = sandbox.capabilities
    assert can.listeners
    spec = BoxSpec(network=NO_NETWORK, take_listener=lambda listener: listener.close())
    check_spec(spec, can, where="this engine")
    lacking = replace(can, listeners=False, missing_listeners="it is far away")
    with pytest.raises(Unsupported, match="which this engine cannot offer: it is far away"):
        check_spec(spec, lacking, where="this engine")
