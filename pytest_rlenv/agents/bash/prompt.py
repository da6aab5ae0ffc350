"""What the model is told of its situation, and of what the task has for it."""

from __future__ import annotations

from pytest_rlenv.agents.bash.handing_over import MCP_FILE, leave_servers, skills_in
from pytest_rlenv.agents.bash.limits import Limits
from pytest_rlenv.agents.protocol import AgentContext

_SYSTEM = """\
You carry out a task in a Linux environment, alone: nobody reads along, and nobody answers questions.

You act by calling the tool `bash`.
- Each call runs in a new shell in the same working directory. Files last; `cd`, variables and functions
  do not.
- Standard input is empty: use no editor, pager or anything else that waits for a person.
- A command is killed after {command_seconds} seconds; ask for up to {longest_command} with `timeout`.
  Start what is to go on running with `nohup ... >/tmp/log 2>&1 &`.
- Of an output longer than {output_bytes} bytes you see the beginning and the end.
- You have at most {turns} turns.

Look before you change things, and check what you have made. When the task is done, reply without calling a
tool: that ends your work, and what you leave in the environment is judged as it is then."""

_SERVERS = """\
MCP servers for this task: {names}. {file} says how each is reached. Speak to them from the shell, for
instance with curl or a few lines of Python."""

_SKILLS = """\
Skills for this task are in {folder}: before you do what one is about, read its SKILL.md."""


def system_prompt(limits: Limits) -> str:
    """Return what is said before anything else."""
    return _SYSTEM.format(**vars(limits))


def first_message(context: AgentContext, shell: str) -> str:
    """Return the task's instruction with what else the task has; the servers' file is put into the box."""
    parts = [context.instruction]
    if context.mcp_servers:
        leave_servers(context.box, context.mcp_servers)
        names = ", ".join(each.name for each in context.mcp_servers)
        parts.append(_SERVERS.format(names=names, file=MCP_FILE))
    if context.skills_dir:
        skills = [
            f"- {path}: {what}" if what else f"- {path}"
            for path, what in skills_in(context.box, context.skills_dir, shell)
        ]
        parts.append("\n".join([_SKILLS.format(folder=context.skills_dir), *skills]))
    return "\n\n".join(parts)
