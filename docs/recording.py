#!/usr/bin/env python3
"""Records docs/recording.svg, the terminal in README.md, from a run of dynamic-mcp.

    docs/recording.py PROGRAM            writes the recording
    docs/recording.py PROGRAM --check    fails if PROGRAM prints something else today

The program runs in a temporary home directory that has the files of two clients. In the recording that directory is
/home/you.
"""

import json
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

RECORDING = Path(__file__).parent / "recording.svg"
CLIENTS = {
    ".config/Claude/claude_desktop_config.json": {
        "github": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"],
                   "env": {"GITHUB_TOKEN": "not-a-real-token"}},
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
    },
    ".cursor/mcp.json": {
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
        "docs": {"url": "https://mcp.example.com/mcp"},
    },
}
COMMAND = ["import", "--dry-run"]
WIDTH, LINE, MARGIN = 760, 18, 16
SECONDS_PER_LINE = 0.12

STYLE = f"""
rect {{ fill: #161b22; stroke: #484f58 }}
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre }}
.command {{ fill: #79c0ff }}
.added {{ fill: #7ee787 }}
.file {{ fill: #9198a1 }}
@media (prefers-reduced-motion: no-preference) {{
  g {{ animation: show 0.01s linear both }}
  @keyframes show {{ from {{ opacity: 0 }} to {{ opacity: 1 }} }}
}}
"""


def run(program):
    """The lines that the program prints."""
    with tempfile.TemporaryDirectory() as home:
        for path, servers in CLIENTS.items():
            path = Path(home, path)
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"mcpServers": servers}, indent=2), encoding="utf-8")
        env = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin"}
        done = subprocess.run([os.path.abspath(program), *COMMAND], env=env, cwd=home, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.replace(os.path.realpath(home), "/home/you").replace(home, "/home/you").splitlines()


def draw(lines):
    lines = [f"$ dynamic-mcp {' '.join(COMMAND)}", *lines]
    out = []
    for index, line in enumerate(lines):
        first = line[:1]
        style = {"$": "command", "+": "added", "-": "file", "@": "file"}.get(first, "")
        style = "file" if line.startswith("+++") else style
        delay = 0.8 + index * SECONDS_PER_LINE if index else 0
        y = MARGIN + 14 + index * LINE
        out.append(f'<g style="animation-delay:{delay:.2f}s">'
                   f'<text class="{style}" x="{MARGIN}" y="{y}" xml:space="preserve">{escape(line)}</text></g>')
    height = 2 * MARGIN + len(lines) * LINE
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">\n'
            f"<title>A terminal in which {escape(lines[0][2:])} shows what it would import</title>\n"
            f'<style>{STYLE}</style>\n<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
            + "\n".join(out) + "\n</svg>\n")


def main():
    recording = draw(run(sys.argv[1]))
    if sys.argv[2:] == ["--check"]:
        if RECORDING.read_text(encoding="utf-8") != recording:
            sys.exit("docs/recording.svg is not what dynamic-mcp prints: run docs/recording.py PROGRAM")
    else:
        RECORDING.write_text(recording, encoding="utf-8")


main()
