#!/usr/bin/env python3
"""Measures what one yes to `check --pin` saves: ten servers of npm and PyPI that a file starts in no exact version.

    cargo build --release && benches/launchers/pin.py

A client calls a tool of each server, one after the other, none of which runs before. It is done before and after
`dynamic-mcp check --pin --yes`. The table has the processes and the PSS of everything below dynamic-mcp when all ten run,
and the time of the first calls. The first run downloads the packages, into target/launchers. Linux only.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from run import CACHE, TARGET, TIMEOUT_SECONDS, Client, descendants, environment, pss

# The arguments of the launcher without a version, and a call of the server.
PACKAGES = [
    ("npx", ["-y", "@modelcontextprotocol/server-memory"], "read_graph", {}),
    ("npx", ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"], "list_allowed_directories", {}),
    ("npx", ["-y", "@modelcontextprotocol/server-sequential-thinking"], "sequentialthinking",
     {"thought": "x", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}),
    ("npx", ["-y", "@modelcontextprotocol/server-everything", "stdio"], "echo", {"message": "x"}),
    ("npx", ["-y", "time-mcp"], "days_in_month", {"date": "2024-02-11"}),
    ("uvx", ["mcp-server-time", "--local-timezone", "UTC"], "get_current_time", {"timezone": "UTC"}),
    ("uvx", ["mcp-server-fetch"], "fetch", {"url": "http://127.0.0.1:9/"}),
    ("uvx", ["mcp-server-git"], "git_status", {"repo_path": "REPOSITORY"}),
    ("uvx", ["mcp-server-calculator"], "calculate", {"expression": "1+1"}),
    ("uvx", ["duckduckgo-mcp-server"], "fetch_content", {"url": "http://127.0.0.1:9/"}),
]


def first_calls(program, home):
    """Returns the times of the first calls in seconds, the number of processes, and their memory in MB."""
    client = Client([program, "--config", str(home / "servers.json")], environment(home), home)
    times = []
    for at, (_, _, tool, arguments) in enumerate(PACKAGES):
        args = json.loads(json.dumps(arguments).replace("REPOSITORY", str(home / "repository")))
        start = time.monotonic()
        answer = client.request("tools/call", {"name": "call_dynamic_tool", "arguments": {"group": f"s{at}", "name": tool, "args": args}})
        times.append(time.monotonic() - start)
        assert "content" in answer and not (answer.get("isError") and "not available" in str(answer)), answer
    below = [pid for warden in descendants(client.process.pid)[:1] for pid in descendants(warden)]
    memory = sum(map(pss, below)) / 1e6
    client.close()
    return times, len(below), memory


def measure(program, home, runs):
    results = [first_calls(program, home) for _ in range(runs + 1)][1:]
    times = [statistics.median(result[0][at] for result in results) for at in range(len(PACKAGES))]
    return [statistics.median(times), statistics.median(result[1] for result in results), statistics.median(result[2] for result in results)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(TARGET / "release/dynamic-mcp"))
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        subprocess.run(["git", "init", "-q", str(home / "repository")], check=True)
        servers = {f"s{at}": {"command": launcher, "args": words} for at, (launcher, words, _, _) in enumerate(PACKAGES)}
        settings = {"lazy_startup": "pure", "timeout": {"initialize": TIMEOUT_SECONDS, "wait": TIMEOUT_SECONDS}}
        (home / "servers.json").write_text(json.dumps({"mcpServers": servers, "settings": settings}, indent=2))
        before = measure(args.program, home, args.runs)
        pinned = subprocess.run([args.program, "--config", str(home / "servers.json"), "check", "--pin", "--yes"], env=environment(home), cwd=home, capture_output=True, text=True)
        print(pinned.stdout.splitlines()[-1], pinned.stderr)
        after = measure(args.program, home, args.runs)
    print("| ten servers | as in the file | after one yes | saved |\n| --- | ---: | ---: | ---: |")
    for name, form, at in [("first call, median", "{:.2f} s", 0), ("processes", "{:.0f}", 1), ("memory", "{:.0f} MB", 2)]:
        print(f"| {name} | {form.format(before[at])} | {form.format(after[at])} | {100 * (1 - after[at] / before[at]):.0f} % |")


if __name__ == "__main__":
    main()
