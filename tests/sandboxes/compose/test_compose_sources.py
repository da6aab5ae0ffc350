"""The files that reading a Compose file would read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.sandboxes.docker.compose.sources import MAX_FILES, check_sources


def fields(root: Path, text: str, **files: str) -> list[str]:
    folder = root / "environment"
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content)
    file = folder / "docker-compose.yaml"
    file.write_text(text)
    return [finding.field for finding in check_sources(file, root)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("services: {a: {env_file: ../../x.env}}", ["services.a.env_file"]),
        ("services: {a: {env_file: [ok.env, {path: /etc/environment}]}}", ["services.a.env_file"]),
        ("services: {a: {env_file: ~/.aws/credentials}}", ["services.a.env_file"]),
        ("services: {a: {env_file: '${HOME}/.netrc'}}", ["services.a.env_file"]),
        ("services: {a: {label_file: /etc/passwd}}", ["services.a.label_file"]),
        ("services: {a: {extends: {file: /etc/x.yaml, service: b}}}", ["services.a.extends"]),
        ("services: {a: !override {env_file: !reset /etc/environment}}", ["services.a.env_file"]),
        ("x: &x {env_file: /etc/environment}\nservices: {a: {<<: *x}}", ["services.a.env_file"]),
        ("services: {}\n---\nservices: {a: {env_file: /etc/environment}}", ["services.a.env_file"]),
        ("include: [/etc/x.yaml]", ["include[0]"]),
        ("include: [{path: [more.yaml, ../../x.yaml]}]", ["include[0]"]),
        ("include: [{path: more.yaml, env_file: /etc/environment}]", ["include[0].env_file"]),
        ("include: [{path: more.yaml, project_directory: /etc}]", ["include[0].project_directory"]),
        ("include: ['oci://example.com/x']", ["include[0]"]),
        ("include: ['https://example.com/x.git']", ["include[0]"]),
        ("include: ['git@example.com:x.git']", ["include[0]"]),
        ("include: [sub.yaml]", ["include[0]: services.b.env_file"]),
        (
            "services: {a: {extends: {file: sub.yaml, service: b}}}",
            ["services.a.extends: services.b.env_file"],
        ),
        ("include: [loop.yaml]", []),
        ("services: {a: {env_file: [ok.env], label_file: l, extends: {service: b}}, b: {}}", []),
        ("services: [not, a, mapping]", []),
        ("", []),
    ],
)
def test_files_outside_the_task_are_found(text: str, found: list[str], tmp_path: Path) -> None:
    assert (
        fields(
            tmp_path,
            text,
            more="services: {}",
            sub="services: {b: {env_file: /etc/environment}}",
            loop="include: [docker-compose.yaml, loop.yaml]",
        )
        == found
    )


def test_a_link_leads_out(tmp_path: Path) -> None:
    root = tmp_path / "task"
    (root / "environment").mkdir(parents=True)
    (tmp_path / "secret").write_text("A=1")
    (root / "environment" / "x.env").symlink_to(tmp_path / "secret")
    (root / "environment" / ".env").symlink_to(tmp_path / "secret")
    assert fields(root, "services: {a: {env_file: x.env}}") == [".env", "services.a.env_file"]


def test_there_is_an_end_to_files(tmp_path: Path) -> None:
    more = {f"f{i}": f"include: [f{i + 1}.yaml]" for i in range(MAX_FILES + 1)}
    assert len(fields(tmp_path, "include: [f0.yaml]", **more)) == 1


@pytest.mark.parametrize("text", ["services: {", "a: [1", "? [a]\n: {b}: c", "\x00"])
def test_what_is_no_yaml_is_the_tasks_fault(text: str, tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid, match=r"environment/docker-compose\.yaml: cannot be read as YAML"):
        fields(tmp_path, text)
