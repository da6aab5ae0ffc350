"""The agents of the table, each as a class."""

from __future__ import annotations

from pytest_rlenv.agents.command_line import table
from pytest_rlenv.agents.command_line.agent import CommandLineAgent


class OpenCode(CommandLineAgent):
    """opencode, by npm."""

    spec = table.OPENCODE


class ClaudeCode(CommandLineAgent):
    """Claude Code, by npm."""

    spec = table.CLAUDE_CODE


class Codex(CommandLineAgent):
    """Codex CLI, by npm."""

    spec = table.CODEX


class GeminiCli(CommandLineAgent):
    """Gemini CLI, by npm."""

    spec = table.GEMINI_CLI


class QwenCoder(CommandLineAgent):
    """Qwen Code, by npm."""

    spec = table.QWEN_CODER


class MiniSweAgent(CommandLineAgent):
    """mini-swe-agent, by PyPI."""

    spec = table.MINI_SWE_AGENT


class Aider(CommandLineAgent):
    """aider, by PyPI."""

    spec = table.AIDER


class Goose(CommandLineAgent):
    """goose, by its releases on GitHub."""

    spec = table.GOOSE


class OpenHands(CommandLineAgent):
    """OpenHands, by PyPI."""

    spec = table.OPENHANDS
