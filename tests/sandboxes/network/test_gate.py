"""What passes a gate, byte by byte, with real sockets on both sides."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from support.gates import (
    LIMIT,
    Door,
    Server,
    client_hello,
    echo,
    own_address,
    read_all,
    read_until,
    serving,
    web,
)

from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC
from pytest_rlenv.sandboxes.network import accepting, dialing, gate, session
from pytest_rlenv.sandboxes.network.hosts import HostList
from pytest_rlenv.sandboxes.network.policy import Policy

HERE = "127.0.0.1"
NAMES = {"good.test": HERE, "other.test": HERE, "evil.test": HERE}


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loopback be a place like any other, as the servers of these tests are there."""
    monkeypatch.setattr(dialing, "refusal", lambda address, hosts: "")


@pytest.fixture
def door(reachable: None) -> Iterator[Door]:
    door = Door("good.test", "other.test", HERE, names=NAMES)
    yield door
    door.gate.close()


@pytest.fixture
def echoes() -> Iterator[Server]:
    with serving(echo) as server:
        yield server


@pytest.fixture
def site() -> Iterator[Server]:
    with serving(web) as server:
        yield server


def status(answer: bytes) -> str:
    return answer.split(b"\r\n", 1)[0].decode()


# ---- tunnels


def test_a_tunnel_to_an_allowed_address_carries_anything_and_closes_by_halves(
    door: Door, echoes: Server
) -> None:
    with door.tunnel(f"{HERE}:{echoes.port}") as client:
        client.sendall(b"\x00\xffserver first, no TLS")
        assert read_until(client, b"TLS") == b"\x00\xffserver first, no TLS"
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"bye"  # said after our end
    assert door.gate.take_denied() == {}


def test_much_goes_through_in_both_directions_at_once(door: Door, echoes: Server) -> None:
    sent = bytes(range(256)) * 10_000
    with door.tunnel(f"{HERE}:{echoes.port}") as client:
        writer = threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
        writer.start()
        got = read_all(client)
        writer.join()
    assert got == sent + b"bye"


@pytest.mark.parametrize("said", ["good.test", "other.test", "GOOD.test"])
def test_tls_for_an_allowed_name_passes_as_it_is(door: Door, echoes: Server, said: str) -> None:
    hello = client_hello(said)
    with door.tunnel(f"good.test:{echoes.port}") as client:
        client.sendall(hello)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == hello + b"bye"
    assert door.gate.take_denied() == {}


def test_a_greeting_may_come_in_small_pieces_and_several_records(door: Door, echoes: Server) -> None:
    message = client_hello("good.test")[5:]
    records = [b"\x16\3\1" + len(part).to_bytes(2, "big") + part for part in (message[:7], message[7:])]
    with door.tunnel(f"good.test:{echoes.port}") as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"".join(records):
            client.send(bytes([byte]))
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"".join(records) + b"bye"


@pytest.mark.parametrize(
    ("sent", "denied"),
    [
        (client_hello("evil.test"), "evil.test:{port}"),
        (client_hello("x.good.test"), "x.good.test:{port}"),
        (client_hello(None), "good.test:{port} (TLS without a server name)"),
        (b"\x16\3\1\0\0", "good.test:{port} (not TLS)"),
        (b"\x16\3\1\xff\xff", "good.test:{port} (not TLS)"),
        (b"\x16\3\1\0\4\2\0\0\0", "good.test:{port} (not a TLS greeting)"),
        (b"\x80\x2e\1\3\1", "good.test:{port} (neither TLS nor HTTP)"),
        (b"\0\0\0\0", "good.test:{port} (neither TLS nor HTTP)"),
    ],
)
def test_a_tunnel_to_an_allowed_name_carries_nothing_for_another(
    door: Door, echoes: Server, sent: bytes, denied: str
) -> None:
    with door.tunnel(f"good.test:{echoes.port}") as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b""
    assert door.gate.take_denied() == {denied.format(port=echoes.port): 1}
    assert echoes.text == b""


def test_a_tunnel_in_which_nothing_is_said_is_no_refusal(door: Door, echoes: Server) -> None:
    with door.tunnel(f"good.test:{echoes.port}") as client:
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b""
    assert door.gate.take_denied() == {}


def test_a_client_that_waits_for_the_server_to_speak_first_is_let_go(
    door: Door, echoes: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HEAD_TIMEOUT", 0.05)
    with door.tunnel(f"good.test:{echoes.port}") as client:
        assert read_all(client) == b""
    assert door.gate.take_denied() == {f"good.test:{echoes.port} (neither TLS nor HTTP)": 1}


def test_plain_http_in_a_tunnel_is_for_the_host_of_the_tunnel(door: Door, site: Server) -> None:
    with door.tunnel(f"good.test:{site.port}") as client:
        client.sendall(
            b"GET /a HTTP/1.1\r\nHost: evil.test\r\n\r\nGET /b HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        )
        assert read_all(client).endswith(b"\r\n\r\nhello")
    assert (
        site.text == f"GET /a HTTP/1.1\r\nHost: good.test:{site.port}\r\nConnection: close\r\n\r\n".encode()
    )


@pytest.mark.parametrize("target", ["http://evil.test/", "*", "evil.test:80"])
def test_a_request_in_a_tunnel_names_no_other_host(door: Door, site: Server, target: str) -> None:
    with door.tunnel(f"good.test:{site.port}") as client:
        client.sendall(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert status(read_all(client)) == "HTTP/1.1 400 Bad Request"
    assert site.text == b""


# ---- plain requests


def test_a_plain_request_is_passed_on_to_the_host_of_its_url(door: Door, site: Server) -> None:
    answer = door.ask(
        f"GET http://good.test:{site.port}/a?b=c HTTP/1.1\r\nHost: evil.test\r\nX: y\r\n"
        "Proxy-Connection: keep-alive\r\n\r\n".encode()
    )
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    assert site.text == (
        f"GET /a?b=c HTTP/1.1\r\nHost: good.test:{site.port}\r\nx: y\r\nConnection: close\r\n\r\n".encode()
    )


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (b"Content-Length: 4\r\n\r\nbodyGET http://evil.test/ HTTP/1.1\r\n\r\n", b"body"),
        (
            b"Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n00\r\nT: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"4\r\nbody\r\n0\r\n\r\n",
        ),
        (b"Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", b"a\r\n0123456789\r\n0\r\n\r\n"),
        (b"\r\nGET http://evil.test/ HTTP/1.1\r\n\r\n", b""),
    ],
)
def test_a_body_is_passed_on_to_its_end_and_no_further(door: Door, sent: bytes, arrives: bytes) -> None:
    def patient(connection: socket.socket, received: bytearray) -> None:
        received += read_until(connection, b"\r\n\r\n" + arrives)
        web(connection, received)

    with serving(patient) as server:
        head = f"POST http://good.test:{server.port}/ HTTP/1.1\r\n".encode()
        assert door.ask(head + sent, end=True).endswith(b"hello")
    assert server.text.partition(b"\r\n\r\n")[2] == arrives


@pytest.mark.parametrize(
    "chunks",
    [
        b"x\r\n",
        b"4\nbody\r\n0\r\n\r\n",
        b"4\r\nbody0\r\n\r\n",
        b"-1\r\n",
        b"0x4\r\nbody\r\n",
        b" 4\r\n",
        b"9" * 16,
        b"4\r\nbody\r\n0\r\nX: 1\n\r\n",
    ],
)
def test_chunks_that_could_be_read_in_two_ways_end_the_request(
    door: Door, chunks: bytes, reachable: None
) -> None:
    with serving(swallow) as server:
        head = f"POST http://good.test:{server.port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        answer = door.ask(head + chunks, end=True)
        assert answer == b"" or status(answer) == "HTTP/1.1 400 Bad Request"
    assert not server.text.endswith(b"0\r\n\r\n")


def swallow(connection: socket.socket, received: bytearray) -> None:
    """Take everything and say nothing."""
    while data := connection.recv(65536):
        received += data


def test_a_body_that_is_cut_short_is_not_passed_on_as_a_whole(door: Door) -> None:
    with serving(swallow) as server:
        head = f"POST http://good.test:{server.port}/ HTTP/1.1\r\nContent-Length: 9\r\n\r\n".encode()
        assert door.ask(head + b"body", end=True) == b""
        assert server.saw(b"\r\n\r\nbody")


def test_a_client_may_wait_for_leave_to_send_its_body(door: Door) -> None:
    def hesitant(connection: socket.socket, received: bytearray) -> None:
        received += read_until(connection, b"\r\n\r\n")
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        received += read_until(connection, b"body")
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with serving(hesitant) as server, door.connect() as client:
        head = f"PUT http://good.test:{server.port}/ HTTP/1.1\r\nExpect: 100-continue\r\n"
        client.sendall(f"{head}Content-Length: 4\r\n\r\n".encode())
        assert read_until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert read_all(client) == b"HTTP/1.1 204 No Content\r\n\r\n"


def test_an_answer_before_the_end_of_the_body_arrives(door: Door) -> None:
    def impatient(connection: socket.socket, received: bytearray) -> None:
        received += read_until(connection, b"\r\n\r\n")
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    with serving(impatient) as server, door.connect() as client:
        head = f"POST http://good.test:{server.port}/ HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n"
        client.sendall(head.encode() + b"begin")
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 413 ")


# ---- refusals


@pytest.mark.parametrize(
    ("request_line", "denied"),
    [
        ("CONNECT evil.test:443 HTTP/1.1", "evil.test:443"),
        ("CONNECT x.good.test:443 HTTP/1.1", "x.good.test:443"),
        ("CONNECT 127.0.0.2:443 HTTP/1.1", "127.0.0.2:443"),
        ("CONNECT [::1]:443 HTTP/1.1", "[::1]:443"),
        ("GET http://evil.test/ HTTP/1.1", "evil.test:80"),
        ("GET http://evil.test:8080/good.test HTTP/1.0", "evil.test:8080"),
    ],
)
def test_a_host_that_is_not_allowed_is_refused_and_counted(
    door: Door, request_line: str, denied: str
) -> None:
    for _ in range(2):
        answer = door.ask(f"{request_line}\r\nHost: good.test\r\n\r\n".encode())
        head, _, body = answer.decode().partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 403 Forbidden\r\n")
        assert body == (
            f"pytest-rlenv: {denied} is not allowed: the task allows good.test, other.test, 127.0.0.1\n"
        )
    assert door.gate.take_denied() == {denied: 2}
    assert door.gate.take_denied() == {}


def test_refusals_of_ever_new_hosts_are_counted_together(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_MAX_DENIED", 2)
    for name in ("a", "b", "c", "d", "a"):
        door.ask(f"CONNECT {name}.test:1 HTTP/1.1\r\n\r\n".encode())
    assert door.gate.take_denied() == {"a.test:1": 2, "b.test:1": 1, "other hosts": 2}


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("GET / HTTP/1.1\r\nHost: good.test", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: good.test", 400),
        ("GET https://good.test/ HTTP/1.1", 501),
        ("GET ftp://good.test/ HTTP/1.1", 501),
        ("GET http://good.test@evil.test/ HTTP/1.1", 400),
        ("GET http://evil.test\\@good.test/ HTTP/1.1", 400),
        ("GET http://good.test:80:80/ HTTP/1.1", 400),
        ("GET http:///etc HTTP/1.1", 400),
        ("CONNECT good.test HTTP/1.1", 400),
        ("CONNECT good.test:443/ HTTP/1.1", 400),
        ("CONNECT http://good.test:443 HTTP/1.1", 400),
        ("CONNECT 127.1:443 HTTP/1.1", 400),
        ("CONNECT 2130706433:443 HTTP/1.1", 400),
        ("CONNECT 0x7f.0.0.1:443 HTTP/1.1", 400),
        ("CONNECT good.test:443 HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
        ("CONNECT good.test:443 HTTP/3", 400),
        ("\x16\x03\x01", 400),
    ],
)
def test_what_is_no_request_to_a_proxy_is_answered_so(door: Door, sent: str, code: int) -> None:
    answer = door.ask(f"{sent}\r\n\r\n".encode("latin-1"))
    assert status(answer).startswith(f"HTTP/1.1 {code} ")
    assert b"\r\n\r\npytest-rlenv: " in answer


def test_a_head_without_end_is_refused(door: Door) -> None:
    line = b"X: " + b"y" * 1000 + b"\r\n"
    answer = door.ask(b"GET http://good.test/ HTTP/1.1\r\n" + line * 70)
    assert status(answer) == "HTTP/1.1 431 Request Header Fields Too Large"


def test_a_slow_head_has_its_limit(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "HEAD_TIMEOUT", 0.05)
    assert status(door.ask(b"GET http://good.test/ HTT")) == "HTTP/1.1 408 Request Timeout"


@pytest.mark.parametrize(
    ("host", "code"), [("good.test", 502), ("unknown.test", 502)], ids=["nobody there", "no such name"]
)
def test_a_host_that_cannot_be_reached(reachable: None, host: str, code: int) -> None:
    with socket.create_server((HERE, 0)) as closed:
        port = closed.getsockname()[1]
    door = Door("good.test", "unknown.test", names=NAMES)
    try:
        answer = door.ask(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
    finally:
        door.gate.close()
    assert status(answer) == f"HTTP/1.1 {code} Bad Gateway"
    assert host.encode() in answer
    assert door.gate.take_denied() == {}


# ---- where names lead


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1"),
        *("::1", "::", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"),
    ],
)
def test_what_is_never_reached_even_if_it_is_listed(address: str) -> None:
    assert dialing.refusal(ip_address(address), HostList([address, "0.0.0.0/0", "::/0"]))


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254", "own"],
)
def test_what_must_be_listed_by_itself(address: str) -> None:
    address = own_address() if address == "own" else address
    anywhere = ["good.test", "0.0.0.0/0", "::/0"]
    assert "by itself" in dialing.refusal(ip_address(address), HostList(anywhere))
    assert dialing.refusal(ip_address(address), HostList([*anywhere, address])) == ""


@pytest.mark.parametrize("address", ["192.0.2.1", "10.1.2.3", "198.51.100.200", "2001:db8::1"])
def test_other_addresses_are_ordinary(address: str) -> None:
    assert dialing.refusal(ip_address(address), HostList(["good.test"])) == ""


@pytest.mark.parametrize("leads_to", ["127.0.0.1", "169.254.169.254", "own"])
def test_an_allowed_name_does_not_lead_to_this_machine(leads_to: str) -> None:
    address = own_address() if leads_to == "own" else leads_to
    with serving(echo, "0.0.0.0") as server:
        door = Door("good.test", "127.0.0.0/8", names={"good.test": address})
        try:
            for target in ("good.test", "127.0.0.1"):
                answer = door.ask(f"CONNECT {target}:{server.port} HTTP/1.1\r\n\r\n".encode())
                assert status(answer) == "HTTP/1.1 403 Forbidden"
            denied = door.gate.take_denied()
        finally:
            door.gate.close()
    assert server.received == []
    assert sorted(each.split(" ")[0] for each in denied) == [
        f"127.0.0.1:{server.port}",
        f"good.test:{server.port}",
    ]
    assert any(address in each for each in denied)


def test_an_address_of_this_machine_that_is_listed_is_reached() -> None:
    address = own_address()
    with serving(echo, address) as server:
        door = Door("good.test", address, names={"good.test": address})
        try:
            with door.tunnel(f"good.test:{server.port}") as client:
                client.sendall(client_hello("good.test"))
                assert client.recv(1) == b"\x16"
        finally:
            door.gate.close()


# ---- the gate itself


def test_another_policy_cuts_what_was_open_and_holds_at_once(door: Door, echoes: Server) -> None:
    authority = f"{HERE}:{echoes.port}"
    with door.tunnel(authority) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        door.gate.set_policy(Policy.of(ALLOWLIST, ["good.test"]))
        assert read_all(client) == b""
        assert status(door.ask(f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())) == "HTTP/1.1 403 Forbidden"
    door.gate.set_policy(Policy.of(NO_NETWORK, []))
    answer = door.ask(b"CONNECT good.test:1 HTTP/1.1\r\n\r\n")
    assert b"this box has no network now" in answer
    door.gate.set_policy(Policy.of(PUBLIC, []))
    with door.tunnel(f"evil.test:{echoes.port}") as client:
        client.sendall(b"anything")
        assert read_until(client, b"anything") == b"anything"
    door.gate.set_policy(Policy.of(ALLOWLIST, [HERE]))
    door.tunnel(authority).close()


def test_a_closed_gate_serves_nobody_and_can_be_closed_again(door: Door, echoes: Server) -> None:
    with door.tunnel(f"{HERE}:{echoes.port}") as client:
        door.gate.close()
        assert read_all(client) == b""
    with pytest.raises(ConnectionRefusedError):
        door.connect()
    door.gate.close()
    door.gate.set_policy(Policy())


def test_a_box_that_started_again_hands_over_another_listener(door: Door, site: Server) -> None:
    old = door.address
    listener = socket.create_server((HERE, 0))
    door.address = listener.getsockname()
    door.gate.replace_listener(listener)
    assert door.ask(f"GET http://good.test:{site.port}/ HTTP/1.1\r\n\r\n".encode()).endswith(b"hello")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(old, LIMIT)


def test_more_connections_than_are_served_at_once_wait_for_their_turn(
    reachable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "MAX_CONNECTIONS", 4)
    door = Door(HERE)
    try:
        with serving(echo) as server, contextlib.ExitStack() as clients:
            busy = [clients.enter_context(door.tunnel(f"{HERE}:{server.port}")) for _ in range(4)]
            waiting = [clients.enter_context(door.connect()) for _ in range(60)]
            for client in waiting:
                client.sendall(f"CONNECT {HERE}:{server.port} HTTP/1.1\r\n\r\n".encode())
            for client in busy:
                client.sendall(b"a")
                assert client.recv(1) == b"a"
            assert len(server.received) == 4
            for client in busy:
                client.close()
            for client in waiting:
                assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
                client.close()
    finally:
        door.gate.close()


def test_all_gates_together_leave_descriptors_for_others(
    reachable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_rlenv.sandboxes.network.background._connections", lambda: 2)
    one, other = Door(HERE), Door(HERE)
    try:
        with serving(echo) as server, contextlib.ExitStack() as clients:
            busy = [clients.enter_context(one.tunnel(f"{HERE}:{server.port}")) for _ in range(2)]
            waiting = clients.enter_context(other.connect())
            waiting.sendall(f"CONNECT {HERE}:{server.port} HTTP/1.1\r\n\r\n".encode())
            for client in busy:
                client.sendall(b"a")
                assert client.recv(1) == b"a"
            assert len(server.received) == 2
            busy[0].close()
            assert read_until(waiting, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    finally:
        one.gate.close()
        other.gate.close()


def test_no_thread_is_left_when_the_last_gate_is_closed() -> None:
    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "rlenv-network"}

    before = threads()
    first, second = Door(), Door()
    assert len(threads() - before) <= 1
    first.gate.close()
    assert status(second.ask(b"CONNECT a.test:1 HTTP/1.1\r\n\r\n")) == "HTTP/1.1 403 Forbidden"
    second.gate.close()
    assert threads() == before


def test_a_listener_that_is_gone_ends_the_gate_quietly(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    assert door.gate._accepting is not None
    listener, task = door.gate._accepting._listener, door.gate._accepting._accepting
    listener.shutdown(socket.SHUT_RDWR)
    give_up = time.monotonic() + LIMIT
    while not task.done() and time.monotonic() < give_up:
        time.sleep(0.005)
    assert task.done()
    door.gate.close()
    assert caplog.records == []
