"""The clients: how each is configured, started and told what it may call without a question.

`turn(run)` writes a client's files into the empty directory `run.home`, and returns the command and the variables of one
turn. `run.servers` are the entries in the notation of Cursor. `run.allowed` is None if every tool may be called, else the
list of the tools, as pairs of a server's key and a tool, that may be called without a question.
"""

import dataclasses
import json
from pathlib import Path
from typing import Callable

PROMPT = "call the tool"


@dataclasses.dataclass
class Variant:
    """A way in which a client searches tools: what switches it, and members of the entry of dynamic-mcp."""

    name: str
    env: dict = dataclasses.field(default_factory=dict)
    settings: dict = dataclasses.field(default_factory=dict)
    # What the entry of `meta` has, by the name of the way.
    entries: dict = dataclasses.field(default_factory=lambda: {"": {}})


@dataclasses.dataclass
class Client:
    name: str
    package: str
    version: str
    # The program, below the directory in which the package is unpacked.
    program: str
    turn: Callable
    permission: str
    variants: list = dataclasses.field(default_factory=lambda: [Variant("")])
    # What else may switch the search; only whether it is on is measured.
    evidence: list = dataclasses.field(default_factory=list)
    is_script: bool = False
    # Whether npm has to install it with other packages.
    has_dependencies: bool = False


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def claude(run):
    config = run.home / ".claude"
    servers = {key: {"type": "stdio", **server} for key, server in run.servers.items()}
    write(config / ".claude.json", {"mcpServers": servers, "hasCompletedOnboarding": True})
    allowed = [f"mcp__{key}" for key in servers]
    if run.allowed is not None:
        allowed = [f"mcp__{key}__{tool}" for key, tool in run.allowed]
    permissions = {"allow": allowed, **run.variant.settings.get("permissions", {})}
    write(config / "settings.json", {**run.variant.settings, "permissions": permissions})
    env = {"CLAUDE_CONFIG_DIR": str(config), "ANTHROPIC_BASE_URL": run.origin, "ANTHROPIC_API_KEY": "x",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "MCP_TIMEOUT": "300000",
           # The first request waits for all servers, which it does for 5 s else.
           "MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "300000"}
    return ["-p", PROMPT, "--output-format", "json"], env


def codex(run):
    model = run.variant.settings.get("model", "fake")
    lines = [*([f'model = "{model}"'] if model else []), 'model_provider = "fake"',
             *run.variant.settings.get("top", []),
             "[model_providers.fake]", 'name = "fake"', f'base_url = "{run.origin}/v1"', 'wire_api = "responses"']
    for key, server in run.servers.items():
        lines += [f"[mcp_servers.{json.dumps(key)}]", f"command = {json.dumps(server['command'])}",
                  f"args = {json.dumps(server['args'])}", "startup_timeout_sec = 300", "required = true"]
        if run.allowed is None:
            lines.append('default_tools_approval_mode = "approve"')
        values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in server.get("env", {}).items())
        lines.append(f"env = {{ {values} }}")
        for other, tool in run.allowed or []:
            if other == key:
                lines += [f"[mcp_servers.{json.dumps(key)}.tools.{json.dumps(tool)}]", 'approval_mode = "approve"']
    write(run.home / ".codex/config.toml", "\n".join(lines) + "\n")
    return ["exec", "--skip-git-repo-check", "--json", PROMPT], {}


def opencode(run):
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{run.origin}/v1", "apiKey": "x"},
                "models": {"fake": {"tool_call": True}}}
    servers = {key: {"type": "local", "command": [server["command"], *server["args"]],
                     "environment": server.get("env", {}), "timeout": 300_000} for key, server in run.servers.items()}
    permission = {"*": "allow"}
    if run.allowed is not None:
        permission = {"*": "ask", **{f"{key}_{tool}": "allow" for key, tool in run.allowed}}
    write(run.home / "opencode.json", {
        "mcp": servers, "model": "fake/fake", "small_model": "fake/fake", "autoupdate": False, "share": "disabled",
        "permission": permission, "provider": {"fake": provider}})
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return ["run", "--format", "json", PROMPT], env


def gemini(run):
    folder = run.home / ".gemini"
    write(folder / "settings.json", {
        "mcpServers": {key: {**server, "timeout": 300_000} for key, server in run.servers.items()},
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False}})
    write(folder / "trustedFolders.json", {str(run.home): "TRUST_FOLDER"})
    rules = [f'[[rule]]\nmcpName = "{key}"\ntoolName = "{tool}"\ndecision = "allow"\npriority = 100\n'
             for key, tool in run.allowed or []]
    write(folder / "policies/allowed.toml", "\n".join(rules))
    env = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": run.origin}
    mode = "yolo" if run.allowed is None else "default"
    return ["--model", "gemini-2.5-flash", "--approval-mode", mode, "--prompt", PROMPT], env


def copilot(run):
    servers = {key: {"type": "local", "tools": ["*"], **server} for key, server in run.servers.items()}
    write(run.home / ".copilot/mcp-config.json", {"mcpServers": servers})
    write(run.home / ".copilot/settings.json", run.variant.settings)
    allowed = ["--allow-all-tools"]
    if run.allowed is not None:
        allowed = [f"--allow-tool={key}({tool})" for key, tool in run.allowed]
    env = {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "COPILOT_MODEL": "fake",
           "COPILOT_PROVIDER_BASE_URL": f"{run.origin}/v1"}
    return [*allowed, "--prompt", PROMPT], env


def qwen(run):
    permissions = {"allow": [f"mcp__{key}__{tool}" for key, tool in run.allowed or []],
                   **run.variant.settings.get("permissions", {})}
    write(run.home / ".qwen/settings.json", {
        "mcpServers": {key: {**server, "timeout": 300_000} for key, server in run.servers.items()},
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}, **run.variant.settings,
        "permissions": permissions})
    env = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{run.origin}/v1", "OPENAI_MODEL": "fake"}
    mode = "yolo" if run.allowed is None else "default"
    return ["--approval-mode", mode, "--prompt", PROMPT], env


def continue_cli(run):
    folder = run.home / ".continue"
    model = {"name": "fake", "provider": "openai", "model": "fake", "apiBase": f"{run.origin}/v1", "apiKey": "x",
             "roles": ["chat"], "capabilities": ["tool_use"]}
    servers = [{"name": key, **server, "connectionTimeout": 300_000} for key, server in run.servers.items()]
    write(folder / "config.yaml", {"name": "fake", "version": "1.0.0", "schema": "v1", "models": [model],
                                   "mcpServers": servers})
    write(folder / "permissions.yaml", {"allow": [tool for _, tool in run.allowed or []], "ask": [], "exclude": []})
    mode = ["--auto"] if run.allowed is None else []
    env = {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_ALLOW_ANONYMOUS_TELEMETRY": "0"}
    return ["--config", str(folder / "config.yaml"), *mode, "--print", PROMPT], env


def cline(run):
    settings = run.home / ".cline/data/settings"
    provider = {"provider": "openai-compatible", "apiKey": "x", "model": "fake", "baseUrl": f"{run.origin}/v1"}
    write(settings / "providers.json", {
        "version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
        "providers": {"openai-compatible": {"settings": provider, "updatedAt": "2026-11-26T00:00:00.000Z",
                                            "tokenSource": "manual"}}})
    servers = {key: {**server, "timeout": 300} for key, server in run.servers.items()}
    if run.allowed is not None:
        servers = {key: {**server, "autoApprove": [tool for other, tool in run.allowed if other == key]}
                   for key, server in servers.items()}
    write(settings / "cline_mcp_settings.json", {"mcpServers": servers})
    approve = "true" if run.allowed is None else "false"
    return ["--json", "--auto-approve", approve, PROMPT], {"CLINE_TELEMETRY_DISABLED": "1"}


SEARCH = "ENABLE_TOOL_SEARCH"
SEARCH_OFF = {"tools": {"toolSearch": {"enabled": False}}}
BETAS = "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS"
CLIENTS = [
    Client("Claude Code", "@anthropic-ai/claude-code-linux-x64", "2.1.332", "claude", claude,
           "`permissions.allow`: `mcp__SERVER__TOOL`",
           [Variant("on", {SEARCH: "true"}, entries={"alwaysLoad": {"alwaysLoad": True}, "": {}}),
            Variant("off", {SEARCH: "false"})],
           [Variant("nothing, another API address"),
            *(Variant(f"`{SEARCH}={value}`", {SEARCH: value}) for value in ("true", "false", "auto", "auto:0", "auto:100")),
            Variant(f"`{SEARCH}=false` in `env` of settings.json", settings={"env": {SEARCH: "false"}}),
            Variant(f"`{SEARCH}=true`, and `false` in `env` of settings.json", {SEARCH: "true"}, {"env": {SEARCH: "false"}}),
            Variant("`permissions.deny`: `ToolSearch`", settings={"permissions": {"deny": ["ToolSearch"]}}),
            Variant(f"`{BETAS}=1`", {BETAS: "1"}),
            Variant(f"`{BETAS}=1`, `{SEARCH}=true`", {BETAS: "1", SEARCH: "true"}),
            Variant("`ANTHROPIC_MODEL=claude-haiku-4-5`", {"ANTHROPIC_MODEL": "claude-haiku-4-5"}),
            Variant("`ANTHROPIC_MODEL=claude-3-5-haiku-20241022`", {"ANTHROPIC_MODEL": "claude-3-5-haiku-20241022"}),
            Variant("`model`: `haiku`", settings={"model": "haiku"})]),
    Client("Codex", "@openai/codex", "0.169.0-linux-x64", "vendor/x86_64-unknown-linux-musl/bin/codex", codex,
           "`approval_mode` of `mcp_servers.SERVER.tools.TOOL`",
           [Variant("off, unknown model"), Variant("on, `gpt-5.5`", settings={"model": "gpt-5.5"}),
            Variant("on, tools in code, `gpt-6.1-sol`", settings={"model": "gpt-6.1-sol"})],
           [Variant("nothing", settings={"model": ""})]
           + [Variant(f"`model`: `{model}`", settings={"model": model}) for model in ("gpt-5.4", "gpt-5.5", "gpt-6.1-sol")]
           + [Variant(f"`gpt-5.5` and `features.{feature} = false`",
                      settings={"model": "gpt-5.5", "top": [f"features.{feature} = false"]})
              for feature in ("tool_search", "tool_search_always_defer_mcp_tools")]),
    Client("OpenCode", "opencode-linux-x64", "1.18.33", "bin/opencode", opencode, "`permission`: `SERVER_TOOL`"),
    Client("Gemini CLI", "@google/gemini-cli", "0.61.0", "bundle/gemini.js", gemini,
           "a policy with `mcpName` and `toolName`", is_script=True),
    Client("Copilot CLI", "@github/copilot-linux-x64", "1.0.102", "copilot", copilot, "`--allow-tool=SERVER(TOOL)`",
           [Variant("off, another provider", entries={"deferTools": {"deferTools": "never"}, "": {}})],
           [Variant(f"`COPILOT_MODEL={model}`", {"COPILOT_MODEL": model}) for model in ("gpt-5.5", "claude-opus-4.5")]),
    Client("Qwen Code", "@qwen-code/qwen-code", "0.24.4", "cli.js", qwen, "`permissions.allow`: `mcp__SERVER__TOOL`",
           [Variant("on", entries={"alwaysLoadTools": {"alwaysLoadTools": True}, "": {}}),
            Variant("off", settings=SEARCH_OFF)],
           [Variant("`permissions.deny`: `tool_search`", settings={"permissions": {"deny": ["tool_search"]}}),
            Variant("`permissions.deny`: `tool_call`", settings={"permissions": {"deny": ["tool_call"]}}),
            Variant("`OPENAI_MODEL=deepseek-v4-pro`", {"OPENAI_MODEL": "deepseek-v4-pro"})], is_script=True),
    Client("Continue CLI", "@continuedev/cli", "1.5.47", "node_modules/@continuedev/cli/dist/cn.js", continue_cli,
           "`permissions.yaml`: `allow`", is_script=True, has_dependencies=True),
    Client("Cline CLI", "@cline/cli-linux-x64", "3.0.65", "bin/cline", cline, "`autoApprove` of the server"),
]


def command_of(client, install):
    """The command of an installed client, without its arguments."""
    program = str(Path(install) / client.name.lower().replace(" ", "-") / client.program)
    return [str(Path(install) / "node/bin/node"), program] if client.is_script else [program]
