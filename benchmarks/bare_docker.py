"""The floor with an engine: create, put, start, exec, put, exec, kill, get, remove, and nothing else.

    python -m benchmarks.bare_docker FOLDER IMAGE PARALLEL

Runs each task's own scripts once, through docker's own Python client, and prints the sum of the rewards. The
containers have the limits of the tasks, and the network that tasks have which say nothing of it.
"""

from __future__ import annotations

import io
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from docker import APIClient

KEEPER = ["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait $!; done"]
_local = threading.local()


def main() -> None:
    """Run all tasks of a folder."""
    folder, image, parallel = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    tasks = sorted(path.parent for path in folder.glob("*/task.toml"))
    with ThreadPoolExecutor(parallel) as pool:
        print(sum(pool.map(lambda task: _rollout(task, image), tasks)))


def _rollout(task: Path, image: str) -> float:
    client = _client()
    box = client.create_container(
        image,
        entrypoint=[],
        command=KEEPER,
        host_config=client.create_host_config(network_mode="bridge", mem_limit="512m", nano_cpus=10**9),
        working_dir="/app",
    )["Id"]
    client.put_archive(box, "/", _tar({"solution/solve.sh": task / "solution/solve.sh"}, "logs/verifier"))
    client.start(box)
    _execute(client, box, "/solution/solve.sh")
    client.put_archive(box, "/", _tar({"tests/test.sh": task / "tests/test.sh"}))
    _execute(client, box, "/tests/test.sh")
    client.kill(box)
    chunks, _ = client.get_archive(box, "/logs/verifier/reward.txt")
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        member = tar.next()
        assert member is not None
        file = tar.extractfile(member)
        assert file is not None
        reward = float(file.read())
    client.remove_container(box, v=True, force=True)
    return reward


def _client() -> APIClient:
    if not hasattr(_local, "client"):
        _local.client = APIClient(version="auto")
    client: APIClient = _local.client
    return client


def _execute(client: APIClient, box: str, script: str) -> None:
    command = client.exec_create(box, ["bash", script])["Id"]
    client.exec_start(command)
    assert client.exec_inspect(command)["ExitCode"] == 0


def _tar(files: dict[str, Path], *folders: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
        for name, path in files.items():
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


if __name__ == "__main__":
    main()
