#!/usr/bin/env python3
"""Compares servers that `npx` and `uvx` start with the same servers under `"launcher": "direct"`.

    cargo build --release && benches/launchers/run.py

For each package below it reads from /proc what the server's process got in both ways: arguments, environment, directory
and executable. Then it starts both commands itself, compares what they answer and how they end, and measures ten of them
together. The first run downloads the packages, into target/launchers. Linux only; it needs npx and uvx.

Memory is the sum of PSS in /proc/PID/smaps_rollup of all processes below dynamic-mcp. docs/benchmarks.md has the figures
of a run.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target")).resolve()
CACHE = TARGET / "launchers"
TIMEOUT_SECONDS = 180
# It names the process that started the server.
OWNER = "DYNAMIC_MCP_OWNER"

# The launcher's arguments. The first five of each launcher are also measured together.
PACKAGES = {
    "npx": [
        ["-y", "@modelcontextprotocol/server-memory@2026.8.31"],
        ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "/tmp"],
        ["-y", "@modelcontextprotocol/server-sequential-thinking@2026.8.31"],
        ["-y", "--package=@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything", "stdio"],
        ["-y", "time-mcp@1.0.6"],
        ["-y", "@upstash/context7-mcp@4.1.1"],
        ["-y", "@playwright/mcp@0.0.83", "--headless"],
        ["-y", "@notionhq/notion-mcp-server@2.5.2"],
        ["-y", "exa-mcp-server@3.4.1"],
        ["-y", "@eslint/mcp@0.3.13"],
        ["-y", "@antv/mcp-server-chart@0.9.10"],
        ["-y", "@modelcontextprotocol/server-github@2025.4.8"],
    ],
    "uvx": [
        ["mcp-server-time==2026.10.19", "--local-timezone", "UTC"],
        ["mcp-server-fetch==2026.10.24"],
        ["--from", "mcp-server-git==2026.10.19", "mcp-server-git"],
        ["mcp-server-calculator==0.2.1"],
        ["duckduckgo-mcp-server==0.7.0"],
        ["arxiv-mcp-server==0.8.2"],
        ["wikipedia-mcp==2.0.1"],
        ["awslabs.aws-documentation-mcp-server==1.2.3"],
    ],
}
MEASURED = 5


def environment(home):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NPM_CONFIG_CACHE": str(CACHE / "npm"),
        "UV_CACHE_DIR": str(CACHE / "uv"),
        # Nothing is shared where this is set.
        "CI": "true",
        **{name: os.environ[name] for name in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY"] if name in os.environ},
    }


class Client:
    """Starts a program and is its MCP client, on stdin and stdout."""

    def __init__(self, command, env, cwd, executable=None):
        self.process = subprocess.Popen(
            command, executable=executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=env
        )
        self.last_id = 0
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.initialized = self.request("initialize", info)
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params=None):
        self.last_id += 1
        self.send(id=self.last_id, method=method, params=params or {})
        for line in self.process.stdout:
            # Some servers also print text.
            message = json.loads(line) if line.startswith(b"{") else {}
            if message.get("id") == self.last_id and "method" not in message:
                return message.get("result") or {"error": message.get("error")}
        raise RuntimeError(f"no answer to {method}")

    def close(self):
        """Returns how the process ends when its stdin is closed, and by a signal if it does not."""
        self.process.stdin.close()
        try:
            return "stdin", self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.terminate()
        try:
            return "SIGTERM", self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "SIGKILL", self.process.wait()


def proc(pid, name):
    return Path(f"/proc/{pid}/{name}")


def words(pid, name):
    return proc(pid, name).read_bytes().rstrip(b"\0" if name == "environ" else b"").split(b"\0")


def children(pid):
    return [int(child) for task in proc(pid, "task").iterdir() for child in (task / "children").read_text().split()]


def descendants(pid):
    return [each for child in children(pid) for each in [child, *descendants(child)]]


def pss(pid):
    lines = proc(pid, "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def links(pid):
    return {os.readlink(fd) for fd in proc(pid, "fd").iterdir() if fd.exists() or fd.is_symlink()}


def server_below(pid):
    """The process that has the stdin and stdout of the launcher `pid`, below the shell that npm starts."""
    stdio = {os.readlink(proc(pid, "fd/0")), os.readlink(proc(pid, "fd/1"))}
    while True:
        below = [child for child in children(pid) if stdio <= links(child)]
        assert len(below) == 1, f"{pid} has {below}"
        pid = below[0]
        if words(pid, "cmdline")[1:2] != [b"-c"]:
            return pid


def seen(pid):
    env = dict(entry.split(b"=", 1) for entry in words(pid, "environ"))
    env.pop(OWNER.encode(), None)
    env.pop(b"DYNAMIC_MCP_ANCESTORS", None)
    return {
        "argv": words(pid, "cmdline"),
        "environment": env,
        "directory": os.readlink(proc(pid, "cwd")),
        "executable": os.readlink(proc(pid, "exe")),
    }


def entries(packages, **more):
    return {f"s{at}": {"command": launcher, "args": args, **more} for at, (launcher, args) in enumerate(packages)}


class Instance:
    """dynamic-mcp with these servers, all of which run."""

    def __init__(self, program, home, packages, launcher):
        config = Path(home) / f"{launcher}.json"
        timeout = {"initialize": TIMEOUT_SECONDS, "wait": TIMEOUT_SECONDS}
        settings = {"launcher": launcher, "timeout": timeout, "lazy_startup": "eager"}
        config.write_text(json.dumps({"mcpServers": entries(packages), "settings": settings}))
        self.client = Client([program, "--config", str(config)], environment(home), home)
        self.own = self.client.process.pid
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            result = self.client.request("tools/call", {"name": "get_status", "arguments": {}})
            groups = result["structuredContent"]["groups"]
            states = [group["state"] for group in groups]
            if all(state == "connected" for state in states):
                break
            assert time.monotonic() < end and "failed" not in states, groups
            time.sleep(0.1)
        self.servers = [group["pid"] for group in groups]

    def close(self):
        self.client.process.stdin.close()
        self.client.process.wait(30)


def learned_start(home):
    files = sorted((Path(home) / ".cache/dynamic-mcp/launchers").glob("*.json"), key=lambda file: file.stat().st_mtime)
    return json.loads(files[-1].read_text()) if files else None


def behaviour(command, env, cwd, executable=None):
    client = Client(command, env, cwd, executable)
    tools = client.request("tools/list")
    answers = {"version": client.initialized.get("serverInfo"), "tools": tools}
    return {**answers, "exit": client.close()}


def compare(program, launcher, args):
    """Returns what differs, and the processes and bytes that were saved."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        package = [(launcher, args)]
        # The first start may install it.
        Instance(program, home, package, "keep").close()
        kept = Instance(program, home, package, "keep")
        launcher_pid = kept.servers[0]
        got = dict(entry.split(b"=", 1) for entry in words(launcher_pid, "environ"))
        through = seen(server_below(launcher_pid))
        kept.close()
        Instance(program, home, package, "direct").close()
        learned = learned_start(home)
        if learned is None:
            return ["not learned"]
        direct = Instance(program, home, package, "direct")
        without = seen(direct.servers[0])
        given = dict(entry.split(b"=", 1) for entry in words(direct.servers[0], "environ"))
        direct.close()
        different = [what for what in through if through[what] != without[what]]
        if "environment" in different:
            names = set(through["environment"].items()) ^ set(without["environment"].items())
            print("   ", sorted({name.decode() for name, _ in names}))
        command = [launcher, *args]
        first = behaviour(command, got, home)
        own = [learned["program"], *args[learned["own_args"] :]]
        second = behaviour(own, given, home)
        different += [f"{what} ({first[what]} {second[what]})" if what == "exit" else what for what in first if first[what] != second[what]]
        return different


def check_times(program, home, packages, launcher, runs):
    """The time from the start of each server to its answer, one at a time: the median of the runs in milliseconds."""
    config = Path(home) / "times.json"
    times = []
    for at in range(len(packages)):
        settings = {"launcher": launcher, "timeout": {"initialize": TIMEOUT_SECONDS}}
        config.write_text(json.dumps({"mcpServers": entries(packages), "settings": settings}))
        values = []
        for run in range(runs + 1):
            out = subprocess.run(
                [program, "--config", str(config), "check", "--json", f"s{at}"], env=environment(home), cwd=home, capture_output=True
            )
            server = json.loads(out.stdout)["servers"][0]
            # The first one is through the launcher in any case.
            if run > 0:
                values.append(server["connectMs"])
        times.append(statistics.median(values))
    return times


def measure(program, runs):
    packages = [(launcher, args) for launcher in PACKAGES for args in PACKAGES[launcher][:MEASURED]]
    print(f"{len(packages)} servers: {MEASURED} by npx, {MEASURED} by uvx")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        for launcher in ["keep", "direct"]:
            times = check_times(program, home, packages, launcher, runs)
            memory, processes = [], []
            for _ in range(runs):
                instance = Instance(program, home, packages, launcher)
                below = [pid for server in instance.servers for pid in [server, *descendants(server)]]
                processes.append(len(below))
                memory.append(sum(map(pss, below)) / 1e6)
                instance.close()
            npx, uvx = times[:MEASURED], times[MEASURED:]
            print(
                f"{launcher:7} processes {statistics.median(processes)}, memory {statistics.median(memory):.0f} MB,"
                f" start of one: npx {statistics.median(npx):.0f} ms ({min(npx):.0f} - {max(npx):.0f}),"
                f" uvx {statistics.median(uvx):.0f} ms ({min(uvx):.0f} - {max(uvx):.0f})"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(TARGET / "release/dynamic-mcp"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="a part of the name of a package")
    parser.add_argument("--measure", action="store_true", help="only measure")
    args = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    CACHE.mkdir(parents=True, exist_ok=True)
    failed = total = 0
    for launcher, packages in PACKAGES.items():
        for package in [] if args.measure else packages:
            if args.only and args.only not in " ".join(package):
                continue
            total += 1
            try:
                different = compare(args.program, launcher, package)
            except Exception as error:
                different = [f"failed: {error!r}"]
            failed += bool(different)
            print("differs" if different else "same   ", launcher, " ".join(package), *different, flush=True)
    if total:
        print(f"{total - failed} of {total} packages: same argv, environment, directory, executable, version, tools and exit")
    if not args.only:
        measure(args.program, args.runs)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
