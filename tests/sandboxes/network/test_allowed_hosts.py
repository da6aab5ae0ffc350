"""Which hosts a list allows: Harbor 0.26's entries and what they mean."""

from __future__ import annotations

import string
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC
from pytest_rlenv.sandboxes.network.hosts import HostList
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.network.targets import BadTarget, Target, parse_host, parse_target

ENTRIES = (
    "example.com",
    "*.wild.example",
    "UPPER.example.",
    "192.0.2.7",
    "198.51.100.0/24",
    "203.0.113.9/32",
    "2001:db8::1",
    "2001:db8:1::/48",
    "xn--bcher-kva.example",
    "*.a.b.example",
)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("example.com", True),
        ("EXAMPLE.Com.", True),
        ("www.example.com", False),
        ("notexample.com", False),
        ("example.com.evil.test", False),
        ("com", False),
        ("wild.example", False),
        ("one.wild.example", True),
        ("two.one.wild.example", True),
        ("_dmarc.wild.example", True),
        ("notwild.example", False),
        ("wild.example.evil.test", False),
        ("upper.example", True),
        ("x.upper.example", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("198.51.100.0", True),
        ("198.51.100.255", True),
        ("198.51.101.0", False),
        ("203.0.113.9", True),
        ("203.0.113.8", False),
        ("[2001:db8::1]", True),
        ("[2001:0DB8:0:0::1]", True),
        ("[2001:db8::2]", False),
        ("[2001:db8:1:ffff::5]", True),
        ("[2001:db8:2::5]", False),
        ("[::ffff:192.0.2.7]", True),
        ("[::ffff:192.0.2.8]", False),
        ("[::ffff:198.51.100.77]", True),
        ("xn--bcher-kva.example", True),
        ("x.a.b.example", True),
        ("a.b.example", False),
        ("x.b.example", False),
    ],
)
@pytest.mark.parametrize("port", [80, 443, 8443])
def test_a_list_allows_what_its_entries_say_on_every_port(host: str, allowed: bool, port: int) -> None:
    policy = Policy.of(ALLOWLIST, ENTRIES)
    assert policy.allows(parse_target(f"{host}:{port}")) is allowed


def test_an_empty_list_allows_nothing() -> None:
    policy = Policy.of(ALLOWLIST, ())
    assert not policy.allows(parse_target("example.com:443"))
    assert not policy.allows(parse_target("192.0.2.7:443"))
    assert policy.explanation == "the task allows no hosts at all"


def test_everything_is_allowed_by_ranges_that_hold_everything() -> None:
    policy = Policy.of(ALLOWLIST, ("0.0.0.0/0", "::/0"))
    assert policy.allows(parse_target("192.0.2.7:1"))
    assert policy.allows(parse_target("[2001:db8::1]:1"))
    assert not policy.allows(parse_target("example.com:1"))


@pytest.mark.parametrize(("mode", "allowed"), [(NO_NETWORK, False), (PUBLIC, True)])
def test_the_gate_in_other_modes(mode: str, allowed: bool) -> None:
    policy = Policy.of(mode, ("example.com",))
    for host in ("example.com", "other.test", "192.0.2.1"):
        assert policy.allows(parse_target(f"{host}:443")) is allowed
    assert policy.explanation == "this box has no network now"


def test_a_long_list_is_shown_in_part() -> None:
    shown = Policy.of(ALLOWLIST, [f"host-{number}.example" for number in range(23)]).explanation
    assert "host-0.example, host-1.example" in shown
    assert shown.endswith("and 3 more")
    assert "host-20" not in shown


@pytest.mark.parametrize("entry", ["192.0.2.1/24", "http://example.com", "example.com/x", "2001:db8::1/32"])
def test_an_entry_with_a_slash_is_a_range_or_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a range of addresses"):
        HostList([entry])


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.com:443", "example.com", 443),
        ("EXAMPLE.com.:443", "example.com", 443),
        ("a_b.example:65535", "a_b.example", 65535),
        ("localhost:1", "localhost", 1),
        ("192.0.2.1:80", IPv4Address("192.0.2.1"), 80),
        ("[2001:db8::1]:80", IPv6Address("2001:db8::1"), 80),
        ("[::ffff:192.0.2.1]:80", IPv4Address("192.0.2.1"), 80),
        ("1password.com:443", "1password.com", 443),
        ("0x.example:443", "0x.example", 443),
    ],
)
def test_targets(text: str, host: object, port: int) -> None:
    target = parse_target(text)
    assert (target.host, target.port) == (host, port)
    assert target.is_name is isinstance(host, str)


def test_the_default_port_is_for_targets_without_one() -> None:
    assert parse_target("example.com", 80) == Target("example.com", 80)
    assert parse_target("example.com:81", 80) == Target("example.com", 81)
    assert parse_target("[2001:db8::1]", 80).authority == "[2001:db8::1]:80"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":80",
        "example.com",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:443x",
        "example.com:-1",
        "example.com:+80",
        "example.com:80:80",
        "example.com:\uff18\uff10",
        "user@example.com:80",
        "user:pass@example.com:80",
        "example.com/:80",
        "example.com\\:80",
        "exa mple.com:80",
        "example.com\0.evil.test:80",
        "example.com\n:80",
        ".example.com:80",
        "example..com:80",
        "example.com..:80",
        "-example.com:80",
        "*.example.com:80",
        "bücher.example:80",
        "a" * 64 + ".example:80",
        "a." * 130 + "example:80",
        # addresses to the C library, though not in their usual form
        "127.1:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.0.0.1:80",
        "0177.0.0.1:80",
        "127.0.0.01:80",
        "127.0.0.1.:80",
        "192.0.2.256:80",
        "1.2.3:80",
        "0x:80",
        "[127.0.0.1]:80",
        "[::1%lo]:80",
        "[fe80::1%25eth0]:80",
        "[2001:db8::1:80",
        "2001:db8::1:80",
        "[]:80",
    ],
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(BadTarget):
        parse_target(text)


LABELS = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=12).filter(
    lambda label: not label.startswith("-") and not label.endswith("-")
)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(lambda labels: ".".join([*labels, "test"]))


@given(NAMES, NAMES)
def test_a_name_allows_itself_and_a_wildcard_what_is_below(name: str, other: str) -> None:
    assert HostList([name]).allows_name(other) is (name == other)
    assert HostList([f"*.{name}"]).allows_name(other) is other.endswith(f".{name}")
    assert HostList([f"*.{name}"]).allows_name(f"{other}.{name}")


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 32))
def test_a_range_allows_what_is_in_it(address: object, other: object, length: int) -> None:
    network = ip_network(f"{address}/{length}", strict=False)
    listed = HostList([str(network)])
    shown = f"[{other}]" if isinstance(other, IPv6Address) else str(other)
    mapped = getattr(other, "ipv4_mapped", None)
    assert Policy(ALLOWLIST, listed).allows(parse_target(f"{shown}:1")) is ((mapped or other) in network)


@given(st.text(max_size=40))
def test_reading_a_host_gives_a_host_or_an_error(text: str) -> None:
    try:
        host = parse_host(text)
    except BadTarget:
        return
    if isinstance(host, str):
        assert host == host.lower()
        assert parse_host(host) == host
    else:
        assert ip_address(text) == host
