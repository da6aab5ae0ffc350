"""Who starts an environment's server: a container engine (as a rule), this machine, or somebody else."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pytest_rlenv.errors import SandboxFailed, SpecError, Unsupported
from pytest_rlenv.frameworks.openenv.container_server import ContainerServer
from pytest_rlenv.frameworks.openenv.manifest import PORT, Manifest
from pytest_rlenv.frameworks.openenv.process_server import ProcessServer, reserved_port
from pytest_rlenv.frameworks.openenv.routes import wait_ready
from pytest_rlenv.frameworks.openenv.server import Server, UrlServer
from pytest_rlenv.processes.environment import plain_environment
from pytest_rlenv.processes.guarded import GuardedProcess
from pytest_rlenv.sandboxes.model import BuildOptions, ImageSpec, ServerSpec
from pytest_rlenv.sandboxes.protocol import Sandbox, SandboxWithServers
from pytest_rlenv.settings import Settings

DOCKER, PROCESS, URL = "docker", "process", "url"

READY_SEC = 180.0
"""Seconds for a server to answer; OpenEnv's imports take four on an idle machine, thirty on a busy one."""
UP_SEC = 20.0
"""Likewise, for one that is said to be up: every task would wait for it."""
BUILD_SEC = 1800.0
TRIES = 3
"""Ports that are tried where another program was quicker."""

DOCKERFILES = ("Dockerfile", "server/Dockerfile")

LOG = "server.log"
"""In the folder of the rollout for which a server was started: what it printed, by its end."""
LOG_BYTES = 8 * 1024 * 1024
"""Bytes of that, half of them from the beginning."""

_TAKEN = ("address already in use", "errno 98", "errno 48")


def launcher_of(settings: Settings) -> str:
    """Return how servers are started in a run."""
    return settings.openenv_launcher or (URL if settings.openenv_url else DOCKER)


def check_launcher(settings: Settings) -> None:
    """See that the options for starting servers make sense together.

    Raises:
        SpecError: they do not, with what is missing.
    """
    launcher = launcher_of(settings)
    if launcher == URL and not settings.openenv_url:
        raise SpecError("--rlenv-openenv-launcher url: which is not said", hint="add --rlenv-openenv-url URL")
    if launcher != URL and settings.openenv_url:
        raise SpecError(f"--rlenv-openenv-url means nothing to --rlenv-openenv-launcher {launcher}")
    if launcher == PROCESS and not settings.trust_code:
        raise SpecError(
            "--rlenv-openenv-launcher process runs the environment's code outside of a container",
            hint="add --rlenv-trust-code if you trust it, or have it run in containers (launcher docker)",
        )
    given = settings.openenv_python or settings.openenv_command
    if launcher != PROCESS and given:
        what = "python" if settings.openenv_python else "command"
        raise SpecError(
            f"--rlenv-openenv-{what} means nothing to --rlenv-openenv-launcher {launcher}",
            hint="add --rlenv-openenv-launcher process --rlenv-trust-code",
        )
    if settings.openenv_command:
        try:
            shlex.split(settings.openenv_command)
        except ValueError as error:
            raise SpecError(
                f"--rlenv-openenv-command = {settings.openenv_command!r} is no command line: {error}"
            ) from None
    if launcher == PROCESS and not given and shutil.which("uv") is None:
        raise SpecError(
            "--rlenv-openenv-launcher process: no `uv` is here to install the environment's packages with",
            hint="pip install uv, or name an interpreter that has them: --rlenv-openenv-python PATH",
        )


@dataclass(frozen=True)
class Launch:
    """How one environment's server is started.

    Attributes:
        settings: the run's.
        manifest: the environment's.
        folder: its files.
        logs: the folder for what the server prints.
        environ: the caller's variables.
        sandbox: the run's sandbox, for servers in containers.
        task: a word for labels.
        enforce_limits: False drops the declared limits.
        patience: every time limit is multiplied by it.
    """

    settings: Settings
    manifest: Manifest
    folder: Path
    logs: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    sandbox: Sandbox | None = None
    task: str = ""
    enforce_limits: bool = True
    patience: float = 1.0

    @property
    def key(self) -> tuple[str, ...]:
        """Environments with the same one can use each other's servers."""
        return ("openenv", launcher_of(self.settings), str(self.folder), self.manifest.file)

    def check(self) -> None:
        """See that the server can be had here, before anything is started.

        Raises:
            Unsupported: it needs what is not there.
        """
        manifest, launcher = self.manifest, launcher_of(self.settings)
        if launcher == URL:
            return
        if manifest.requires_credentials:
            raise Unsupported(f"{manifest.file}: requires_credentials, and no keys are passed on")
        if manifest.network not in ("public", ""):
            raise Unsupported(
                f"{manifest.file}: validation.network.mode is {manifest.network!r}; servers have a public "
                "network only"
            )
        if manifest.gpus:
            raise Unsupported(f"{manifest.file}: it needs {manifest.gpus} GPUs, and servers have none")
        if launcher == DOCKER:
            self._engine()

    def start(self) -> Server:
        """Start a server and wait until it is ready; nothing is left of one that is not.

        Raises:
            Unsupported: it needs what is not there.
            BuildFailed, ImageUnavailable, BoxUnfit, EngineUnavailable, DiskFull: it has no container.
            SandboxFailed: it ended, or is not ready in time.
        """
        launcher = launcher_of(self.settings)
        if launcher == URL:
            assert self.settings.openenv_url is not None
            return _ready(UrlServer(self.settings.openenv_url), UP_SEC * self.patience)
        if launcher == PROCESS:
            return self._process()
        return _ready(self._container(), READY_SEC * self.patience)

    # ---- containers

    def _engine(self) -> SandboxWithServers:
        sandbox = self.sandbox
        if sandbox is None or not sandbox.capabilities.servers:
            name = "no sandbox" if sandbox is None else f"sandbox {sandbox.name}"
            raise Unsupported(
                f"the environment's server runs in a container, and {name} has none: use --rlenv-sandbox "
                "docker, or --rlenv-openenv-launcher process with --rlenv-trust-code"
            )
        return cast(SandboxWithServers, sandbox)

    def _container(self) -> Server:
        engine, manifest = self._engine(), self.manifest
        image = engine.prepare(self.image(), timeout=BUILD_SEC * self.patience)
        limits = manifest if self.enforce_limits else Manifest()
        spec = ServerSpec(
            port=manifest.port,
            default_port=PORT,
            env={"MAX_CONCURRENT_ENVS": "1", "ENABLE_WEB_INTERFACE": "false"},
            cpus=limits.cpus,
            memory_mb=limits.memory_mb,
            labels={"task": self.task, "server": "openenv"},
            log=self.logs / LOG,
        )
        return ContainerServer(engine.serve(image, spec), image.pinned)

    def image(self) -> ImageSpec:
        """Return the image that servers are started from.

        Raises:
            Unsupported: there is none, and nothing to build one from.
        """
        name = self.settings.openenv_image or (None if self.settings.build else self.manifest.image)
        if name:
            return ImageSpec(name=name)
        context = self.folder / self.manifest.context if self.manifest.context else self.folder
        wanted = (self.manifest.dockerfile,) if self.manifest.dockerfile else DOCKERFILES
        found = next((each for each in wanted if (self.folder / each).is_file()), None)
        if found is None or not context.resolve().is_relative_to(self.folder.resolve()):
            raise Unsupported(
                f"there is no image to start: no {' or '.join(wanted)} in the environment; name one with "
                "--rlenv-openenv-image"
            )
        slug = self.manifest.name or self.folder.name
        inside = (self.folder / found).resolve()
        if not inside.is_relative_to(context.resolve()):
            return ImageSpec(context=context, slug=slug, options=BuildOptions(text=inside.read_text("utf-8")))
        path = inside.relative_to(context.resolve()).as_posix()
        options = BuildOptions() if path == "Dockerfile" else BuildOptions(dockerfile=path)
        return ImageSpec(context=context, slug=slug, options=options)

    # ---- processes

    def _process(self) -> Server:
        for last in (False,) * (TRIES - 1) + (True,):
            with reserved_port() as port:
                server = ProcessServer(self._started(port), port, self._words())
                try:
                    return _ready(server, READY_SEC * self.patience)
                except SandboxFailed as error:
                    if last or not any(word in error.detail.lower() for word in _TAKEN):
                        raise
        raise AssertionError("unreachable")

    def _started(self, port: int) -> GuardedProcess:
        variables = {
            **plain_environment(self.environ),
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "MAX_CONCURRENT_ENVS": "1",
            "ENABLE_WEB_INTERFACE": "false",
            "PYTHONUNBUFFERED": "1",
        }
        command = self._command(port)
        try:
            return GuardedProcess(
                command, env=variables, cwd=self.folder, log=self.logs / LOG, log_cap=LOG_BYTES
            )
        except OSError as error:
            raise SandboxFailed(f"the server cannot be started: {error.strerror}: {command[0]}") from None

    def _command(self, port: int) -> list[str]:
        python = self.settings.openenv_python or sys.executable
        if self.settings.openenv_command:
            words = shlex.split(self.settings.openenv_command)
            return [word.replace("{port}", str(port)).replace("{python}", python) for word in words]
        serve = [self.manifest.app, "--host", "127.0.0.1", "--port", str(port)]
        if self.settings.openenv_python:
            return [python, "-m", "uvicorn", *serve]
        return ["uv", "run", "--isolated", "--project", str(self.folder), "--", "uvicorn", *serve]

    def _words(self) -> str:
        return "process (uv)" if self._command(0)[0] == "uv" else "process"


def _ready(server: Server, seconds: float) -> Server:
    try:
        wait_ready(server, seconds)
    except BaseException:
        server.close()
        raise
    return server
