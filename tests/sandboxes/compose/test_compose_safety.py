"""What of a Compose model is refused, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.docker.compose.findings import Finding, refuse
from pytest_rlenv.sandboxes.docker.compose.safety import HARMLESS, check_model
from pytest_rlenv.sandboxes.model import LEFT_OUT

HOST = {"type": "bind", "source": "/var/run/docker.sock", "target": "/s"}


def found(root: Path, service: dict[str, Any] | None = None, **model: Any) -> list[Finding]:
    services = {"main": {"image": "a"}, "db": {"image": "b", **(service or {})}}
    return check_model({"name": "p", "services": services, **model}, root, "x86_64")


@pytest.mark.parametrize(
    ("service", "field"),
    [
        ({"privileged": True}, "privileged"),
        ({"cap_add": ["NET_ADMIN"]}, "cap_add"),
        ({"cap_add": ["cap_sys_ptrace"]}, "cap_add"),
        ({"cap_add": ["ALL"]}, "cap_add"),
        ({"devices": [{"source": "/dev/kvm", "target": "/dev/kvm"}]}, "devices"),
        ({"device_cgroup_rules": ["c 1:3 rwm"]}, "device_cgroup_rules"),
        ({"gpus": [{"count": -1}]}, "gpus"),
        (
            {"deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}},
            "deploy.resources.reservations.devices",
        ),
        ({"runtime": "sysbox"}, "runtime"),
        ({"annotations": {"run.oci": "x"}}, "annotations"),
        ({"cgroup_parent": "/"}, "cgroup_parent"),
        ({"cgroup": "host"}, "cgroup"),
        ({"external_links": ["other"]}, "external_links"),
        ({"use_api_socket": True}, "use_api_socket"),
        ({"security_opt": ["seccomp:unconfined"]}, "security_opt"),
        ({"security_opt": ["no-new-privileges:false"]}, "security_opt"),
        ({"oom_kill_disable": True}, "oom_kill_disable"),
        ({"oom_score_adj": -500}, "oom_score_adj"),
        ({"network_mode": "host"}, "network_mode"),
        ({"network_mode": "container:other"}, "network_mode"),
        ({"pid": "host"}, "pid"),
        ({"ipc": "host"}, "ipc"),
        ({"uts": "host"}, "uts"),
        ({"userns_mode": "host"}, "userns_mode"),
        ({"volumes": [HOST]}, "volumes[0]"),
        ({"volumes_from": ["container:other:ro"]}, "volumes_from"),
        ({"post_start": [{"command": ["x"], "privileged": True}]}, "post_start.privileged"),
        ({"a_new_field": "x"}, "a_new_field"),
    ],
)
def test_what_reaches_out_of_a_container_is_refused_unless_allowed(
    service: dict[str, Any], field: str, tmp_path: Path
) -> None:
    (finding,) = found(tmp_path, service)
    assert finding.field == f"services.db.{field}"
    with pytest.raises(Unsupported) as refused:
        refuse("environment/docker-compose.yaml", [finding], allow_unsafe=False)
    assert f"environment/docker-compose.yaml: services.db.{field}: " in refused.value.reason
    assert "--rlenv-allow-unsafe-compose" in refused.value.reason
    refuse("environment/docker-compose.yaml", [finding], allow_unsafe=True)


@pytest.mark.parametrize(
    ("service", "field"),
    [
        ({"provider": {"type": "model"}}, "provider"),
        ({"models": {"llm": None}}, "models"),
        ({"isolation": "hyperv"}, "isolation"),
        ({"scale": 2}, "scale"),
        ({"deploy": {"replicas": 0}}, "scale"),
        ({"platform": "linux/arm64"}, "platform"),
        ({"volumes": [{"type": "npipe", "source": "x", "target": "y"}]}, "volumes[0]"),
        ({"build": {"context": "https://example.com/x.git"}}, "build.context"),
        ({"build": {"context": "/elsewhere"}}, "build.context"),
        ({"build": {"context": ".", "ssh": ["default"]}}, "build.ssh"),
    ],
)
def test_what_cannot_be_done_is_refused_whatever_is_allowed(
    service: dict[str, Any], field: str, tmp_path: Path
) -> None:
    if (service.get("build") or {}).get("context") == ".":
        service = {"build": {**service["build"], "context": str(tmp_path)}}
    (finding,) = found(tmp_path, service)
    assert finding.field == f"services.db.{field}"
    with pytest.raises(Unsupported) as refused:
        refuse("f", [finding], allow_unsafe=True)
    assert "--rlenv-allow-unsafe-compose" not in refused.value.reason


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ({"networks": {"n": {"external": True}}}, "networks.n.external"),
        ({"networks": {"n": {"driver": "macvlan"}}}, "networks.n.driver"),
        ({"networks": {"n": {"driver_opts": {"parent": "eth0"}}}}, "networks.n.driver_opts"),
        ({"networks": {"n": {"new": 1}}}, "networks.n.new"),
        ({"volumes": {"v": {"external": True}}}, "volumes.v.external"),
        ({"volumes": {"v": {"driver": "nfs"}}}, "volumes.v.driver"),
        (
            {"volumes": {"v": {"driver_opts": {"type": "none", "o": "bind", "device": "/etc"}}}},
            "volumes.v.driver_opts",
        ),
        ({"secrets": {"s": {"file": "/etc/shadow"}}}, "secrets.s.file"),
        ({"configs": {"c": {"file": "/etc/passwd"}}}, "configs.c.file"),
        ({"secrets": {"s": {"external": True}}}, "secrets.s"),
        ({"models": {"llm": {"model": "x"}}}, "models"),
    ],
)
def test_what_stands_beside_services_is_looked_at_too(
    model: dict[str, Any], field: str, tmp_path: Path
) -> None:
    (finding,) = found(tmp_path, **model)
    assert finding.field == field


def test_what_tasks_usually_ask_for_is_fine(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    service = {
        "build": {"context": str(tmp_path), "dockerfile_inline": "FROM a", "args": {"A": "b"}, "target": "x"},
        "platform": "linux/amd64",
        "cap_add": ["NET_BIND_SERVICE", "CAP_CHOWN"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "volumes": [
            {"type": "bind", "source": str(tmp_path / "data"), "target": "/data"},
            {"type": "bind", "source": str(tmp_path / "not-there"), "target": "/data2"},
            {"type": "bind", "source": str(LEFT_OUT / "verifier"), "target": "/logs/verifier"},
            {"type": "volume", "source": "v", "target": "/v"},
            {"type": "tmpfs", "target": "/tmp"},
        ],
        "ports": [{"target": 80, "published": "80"}],
        "container_name": "db",
        "network_mode": "service:main",
        "pid": "service:main",
        "deploy": {"resources": {"limits": {"memory": "50M"}}},
        "x-note": "anything",
    }
    volume = {"driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}
    networks = {
        "n": {"driver": "bridge", "internal": True, "driver_opts": {"com.docker.network.driver.mtu": 9}}
    }
    assert found(tmp_path, service, volumes={"v": volume}, networks=networks, **{"x-top": 1}) == []


def test_a_link_does_not_lead_out_of_the_task(tmp_path: Path) -> None:
    root = tmp_path / "task"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    (finding,) = found(root, {"volumes": [{"type": "bind", "source": str(root / "out"), "target": "/x"}]})
    assert finding.field == "services.db.volumes[0]"


@given(
    name=st.from_regex(r"[a-z_]{1,20}", fullmatch=True), value=st.sampled_from([True, "x", ["x"], {"a": 1}])
)
def test_nothing_unknown_passes(name: str, value: Any) -> None:
    if name not in HARMLESS:
        assert [each.field for each in found(Path("/nowhere"), {name: value})] == [f"services.db.{name}"]
