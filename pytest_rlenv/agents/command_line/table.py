"""The programs that are known by name. What each is given, and how its log is read, is all here."""

from __future__ import annotations

from pytest_rlenv.agents.command_line import settings
from pytest_rlenv.agents.command_line.install import Npm, Pypi, Script
from pytest_rlenv.agents.command_line.readers import (
    aider,
    claude_events,
    codex,
    gemini,
    goose,
    mini_swe_agent,
    opencode,
    openhands,
)
from pytest_rlenv.agents.command_line.spec import CHAT, GOOGLE, MESSAGES, RESPONSES, CommandLineSpec

_INSTRUCTION = '"$(cat "$RLENV_INSTRUCTION_FILE")"'
_FROM_FILE = '<"$RLENV_INSTRUCTION_FILE"'
_LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""LiteLLM is to take its list of prices from its own package, not from the net."""

OPENCODE = CommandLineSpec(
    name="opencode",
    install=Npm("opencode-ai", "1.18.33", "opencode"),
    run=f'opencode run $RLENV_RESUME --format json --model "rlenv/$RLENV_MODEL" -- {_INSTRUCTION}',
    resume="--continue",
    wires=(CHAT, MESSAGES, RESPONSES),
    env={
        "OPENCODE_CONFIG": "$RLENV_WORK/opencode.json",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "XDG_DATA_HOME": "$RLENV_WORK/data",
        "XDG_STATE_HOME": "$RLENV_WORK/state",
    },
    settings=settings.opencode,
    reader=opencode.read,
    takes_mcp=True,
    skills="~/.config/opencode/skills",
)

CLAUDE_CODE = CommandLineSpec(
    name="claude-code",
    install=Npm("@anthropic-ai/claude-code", "2.1.328", "claude"),
    run="claude --print --verbose --output-format stream-json --dangerously-skip-permissions $RLENV_RESUME "
    f'--mcp-config "$RLENV_WORK/mcp-servers.json" {_FROM_FILE}',
    resume="--continue",
    wires=(MESSAGES,),
    env={
        "CLAUDE_CONFIG_DIR": "$RLENV_WORK/claude",
        "ANTHROPIC_MODEL": "$RLENV_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL": "$RLENV_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "$RLENV_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "$RLENV_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "$RLENV_MODEL",
        "CLAUDE_CODE_SUBAGENT_MODEL": "$RLENV_MODEL",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    },
    settings=settings.claude_code,
    reader=claude_events.read,
    takes_mcp=True,
    skills='"$CLAUDE_CONFIG_DIR/skills"',
)

CODEX = CommandLineSpec(
    name="codex",
    install=Npm("@openai/codex", "0.169.0", "codex"),
    run="codex exec $RLENV_RESUME --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "
    f"- {_FROM_FILE}",
    resume="resume --last",
    wires=(RESPONSES,),
    env={"CODEX_HOME": "$RLENV_WORK/codex"},
    settings=settings.codex,
    reader=codex.read,
    takes_mcp=True,
    skills="~/.agents/skills",
)

GEMINI_CLI = CommandLineSpec(
    name="gemini-cli",
    install=Npm("@google/gemini-cli", "0.61.0", "gemini"),
    run='gemini --yolo --output-format stream-json --model "$RLENV_MODEL" $RLENV_RESUME '
    f"--prompt {_INSTRUCTION}",
    resume="--resume latest",
    wires=(GOOGLE,),
    # no system-wide settings: it passes over those below a folder that anybody may write to, such as /tmp
    env={"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_HOME": "$RLENV_WORK"},
    settings=settings.gemini_cli,
    reader=gemini.read,
    takes_mcp=True,
    skills='"$RLENV_WORK"/.gemini/skills',
)

QWEN_CODER = CommandLineSpec(
    name="qwen-coder",
    install=Npm("@qwen-code/qwen-code", "0.24.4", "qwen"),
    run='qwen --yolo --auth-type openai --output-format stream-json --model "$RLENV_MODEL" $RLENV_RESUME '
    f"--prompt {_INSTRUCTION}",
    resume="--continue",
    env={
        "OPENAI_MODEL": "$RLENV_MODEL",
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": "$RLENV_WORK/settings.json",
    },
    settings=settings.qwen_code,
    reader=claude_events.read,
    takes_mcp=True,
    skills="~/.qwen/skills",
)

MINI_SWE_AGENT = CommandLineSpec(
    name="mini-swe-agent",
    install=Pypi("mini-swe-agent", "2.4.6", "mini", needs=("litellm[mcp]", "orjson", "fastapi")),
    run='mini --yolo --exit-immediately --cost-limit 0 --model "$RLENV_LITELLM_MODEL" '
    f'--output "$RLENV_LOGS/mini-swe-agent.trajectory.json" --task {_INSTRUCTION}',
    wires=(CHAT, MESSAGES),
    env={
        **_LITELLM,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": "$RLENV_WORK/mini-swe-agent",
    },
    probe="--help",
    log="mini-swe-agent.trajectory.json",
    reader=mini_swe_agent.read,
)

AIDER = CommandLineSpec(
    name="aider",
    install=Pypi("aider-chat", "0.86.2", "aider", python=(10, 12)),
    run='aider --yes-always --model "$RLENV_LITELLM_MODEL" --message-file "$RLENV_INSTRUCTION_FILE" '
    "--no-check-update --analytics-disable --no-show-model-warnings --no-show-release-notes --no-gitignore "
    "--no-auto-commits --no-dirty-commits --no-pretty --no-stream "
    '--chat-history-file "$RLENV_LOGS/aider.chat.history.md" --input-history-file "$RLENV_WORK/aider.input"',
    wires=(CHAT, MESSAGES),
    env=_LITELLM,
    log="aider.chat.history.md",
    reader=aider.read,
)

GOOSE = CommandLineSpec(
    name="goose",
    install=Script(
        "packages curl bzip2 ca-certificates\n"
        "if have apt-get; then packages libxcb1 libgomp1; else packages libxcb libgomp; fi\n"
        'url="https://github.com/block/goose/releases/download/v$version/'
        'goose-$(uname -m)-unknown-linux-gnu.tar.bz2"\n'
        'curl -fsSL "$url" | tar -xj -C "$root/bin"\n',
        "1.19.0",
        "goose",
    ),
    run='goose run $RLENV_RESUME --output-format stream-json --instructions "$RLENV_INSTRUCTION_FILE"',
    resume="--resume",
    env={
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "$RLENV_MODEL",
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "true",
        "OPENAI_HOST": "$ANTHROPIC_BASE_URL",  # it wants the root, to which it adds the path
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "XDG_CONFIG_HOME": "$RLENV_WORK",
        "XDG_DATA_HOME": "$RLENV_WORK/data",
        "XDG_STATE_HOME": "$RLENV_WORK/state",
    },
    settings=settings.goose,
    reader=goose.read,
    takes_mcp=True,
)

OPENHANDS = CommandLineSpec(
    name="openhands",
    install=Pypi(
        "openhands-ai",
        "0.62.0",
        "openhands",
        python=(12, 13),
        module="openhands.core.main",
        programs=("tmux", "git"),
    ),
    run='SANDBOX_VOLUMES="$PWD:/workspace:rw" USER="$(id -un)" openhands '
    '--config-file "$RLENV_WORK/openhands.toml" --file "$RLENV_INSTRUCTION_FILE"',
    wires=(CHAT, MESSAGES),
    env={
        **_LITELLM,
        "LLM_MODEL": "$RLENV_LITELLM_MODEL",
        "LLM_BASE_URL": "$RLENV_LITELLM_URL",
        "LLM_API_KEY": "$RLENV_MODEL_KEY",
        "RUNTIME": "local",
        "RUN_AS_OPENHANDS": "false",
        "SU_TO_USER": "false",
        "SKIP_DEPENDENCY_CHECK": "1",
        "AGENT_ENABLE_BROWSING": "false",
        "ENABLE_BROWSER": "false",
        "SAVE_TRAJECTORY_PATH": "$RLENV_LOGS/openhands.trajectory.json",
        "FILE_STORE": "local",
        "FILE_STORE_PATH": "$RLENV_WORK/openhands",
    },
    settings=settings.openhands,
    log="openhands.trajectory.json",
    reader=openhands.read,
    takes_mcp=True,
)

SPECS = (
    OPENCODE,
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    QWEN_CODER,
    MINI_SWE_AGENT,
    AIDER,
    GOOSE,
    OPENHANDS,
)
"""All of them."""
