"""What is to be known of a program that is an agent: one entry of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Template

from pytest_rlenv.agents.command_line.install import ROOT, Install
from pytest_rlenv.agents.command_line.transcript import Transcript
from pytest_rlenv.agents.protocol import McpServer

WORK = "/tmp/rlenv-agent"
"""Folder in the box for the instruction and for programs' own settings; not kept."""
LOGS = "/logs/agent"
"""Folder in the box of what is kept."""
VERSION = "--version"
CHAT, RESPONSES, MESSAGES, GOOGLE = "chat", "responses", "messages", "google"
"""What is spoken with a model: OpenAI's chat completions or responses, Anthropic's messages, Google's own."""


@dataclass(frozen=True)
class Launch:
    """What one run of a program is given.

    Attributes:
        agent: the agent's name.
        model: the model's name as the endpoint knows it.
        wire: what is spoken with it.
        openai_base_url: where OpenAI's wires are answered, with ``/v1`` at its end; empty for no endpoint.
        anthropic_base_url: where Anthropic's is answered, without ``/v1``.
        key: the key to show there.
        mcp_servers: the task's servers of tools.
        skills_dir: the task's folder of skills in the box.
        resume: True to go on with the session of the run before.
    """

    agent: str
    model: str = ""
    wire: str = CHAT
    openai_base_url: str = ""
    anthropic_base_url: str = ""
    key: str = field(default="", repr=False)
    mcp_servers: Sequence[McpServer] = ()
    skills_dir: str | None = None
    resume: bool = False

    @property
    def base_url(self) -> str:
        """Where the wire is answered, with ``/v1`` at its end."""
        return f"{self.anthropic_base_url}/v1" if self.wire == MESSAGES else self.openai_base_url

    def variables(self) -> dict[str, str]:
        """Return the variables of every program: our own, and the ones that clients know."""
        own = {
            "RLENV_INSTRUCTION_FILE": f"{WORK}/instruction.md",
            "RLENV_WORK": WORK,
            "RLENV_LOGS": LOGS,
            "RLENV_ROOT": f"{ROOT}/{self.agent}",
            "RLENV_SKILLS_DIR": self.skills_dir or "",
            "RLENV_MCP_FILE": f"{WORK}/mcp.json" if self.mcp_servers else "",
            "RLENV_MODEL": self.model,
        }
        if not self.openai_base_url:
            return own
        return {
            **own,
            "RLENV_MODEL_URL": self.base_url,
            "RLENV_MODEL_KEY": self.key,
            "RLENV_LITELLM_URL": self.anthropic_base_url if self.wire == MESSAGES else self.openai_base_url,
            "RLENV_LITELLM_MODEL": f"{'anthropic' if self.wire == MESSAGES else 'openai'}/{self.model}",
            "OPENAI_BASE_URL": self.openai_base_url,
            "OPENAI_API_BASE": self.openai_base_url,
            "OPENAI_API_KEY": self.key,
            "ANTHROPIC_BASE_URL": self.anthropic_base_url,
            "ANTHROPIC_API_BASE": self.anthropic_base_url,
            "ANTHROPIC_API_KEY": self.key,
            "GOOGLE_GEMINI_BASE_URL": self.anthropic_base_url,  # of Google's wire it is the same root
            "GEMINI_API_KEY": self.key,
        }


Reader = Callable[[bytes, Transcript], None]
Settings = Callable[[Launch], Mapping[str, str]]


def no_settings(launch: Launch) -> Mapping[str, str]:
    """Return no files: the program is told all by its variables."""
    return {}


@dataclass(frozen=True)
class CommandLineSpec:
    """One program.

    Attributes:
        name: the agent's name.
        run: for ``sh``: starts it on one instruction; the variables of :meth:`Launch.variables` are there,
            and ``$RLENV_RESUME``.
        install: how it gets into the box; ``None`` for what is there.
        reader: reads its log; ``None`` for one that nobody can read.
        wires: what it can speak with a model, the best first.
        env: further variables; ``$NAME`` stands for one of :meth:`Launch.variables`.
        settings: makes its files, by path below :data:`WORK`.
        log: the file below :data:`LOGS` that is read; what it prints, if empty.
        resume: what ``$RLENV_RESUME`` is to go on with the session before; empty if it cannot.
        takes_mcp: True if the settings hand over MCP servers; else the instruction tells of them.
        skills: the folder from which it takes skills, as ``sh`` writes it; empty if it finds them by their
            variable, ``None`` if the instruction tells of them.
        probe: the argument with which it is started to see whether it does.
    """

    name: str
    run: str
    install: Install | None = None
    reader: Reader | None = None
    wires: tuple[str, ...] = (CHAT,)
    env: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = no_settings
    log: str = ""
    resume: str = ""
    takes_mcp: bool = False
    skills: str | None = None
    probe: str = VERSION

    def variables(self, launch: Launch) -> dict[str, str]:
        """Return the variables of one run."""
        known = launch.variables()
        own = {name: Template(text).safe_substitute(known) for name, text in self.env.items()}
        return {**known, "RLENV_RESUME": self.resume if launch.resume else "", **own}

    @property
    def output(self) -> str:
        """The file below :data:`LOGS` that has what it prints."""
        return f"{self.name}.txt"

    def script(self) -> str:
        """Return what is run in the box: skills to their place, then the program, its output kept."""
        lines = ['export PATH="$RLENV_ROOT/bin:$PATH"', 'mkdir -p "$RLENV_LOGS"']
        if self.skills:
            lines.append(
                'if [ -n "$RLENV_SKILLS_DIR" ] && [ -d "$RLENV_SKILLS_DIR" ]; then '
                f'mkdir -p {self.skills} && cp -R "$RLENV_SKILLS_DIR"/. {self.skills}/; fi'
            )
        output, errors = f'"$RLENV_LOGS"/{self.output}', f'"$RLENV_LOGS"/{self.name}-stderr.txt'
        lines.append(f"{{ {self.run}\n}} </dev/null >{output} 2>{errors}")
        return "\n".join(lines)
