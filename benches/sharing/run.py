#!/usr/bin/env python3
"""Measures what many windows cost with private and with shared servers: processes and memory.

    cargo build --release
    benches/sharing/run.py [PROGRAM] [--windows N]              # eight servers that keep nothing between calls
    benches/sharing/run.py [PROGRAM] --agents                   # 84 windows that come and go within five minutes
    benches/modes/setup
    benches/sharing/run.py [PROGRAM] [--windows N] --ten        # the ten servers of benches/modes

It uses real servers in pinned versions. It installs the eight into target/direct (network, python3 and npm). Of the ten,
those five are shared that keep nothing between calls; the others stay private, as they are without a word in the config.
Memory is the sum of the PSS of all windows, wardens, hosts and servers: a page that several processes use counts in
parts. A first answer is the median over all servers and all windows but the first. The context switches are those of all our
own processes in 10 s without a call; a process that makes system calls has some.
"""

import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
IDLE_S = 10
SETTLE_S = 8
# The windows of agents: how many, how often one starts, and how long it lives.
AGENTS, AGENT_INTERVAL_S, AGENT_LIFETIME_S = 84, 3.5, 20


def eight_servers(files, repository):
    """The command of each server, and a call."""
    sys.path.insert(0, str(ROOT / "tests/real"))
    import direct_client

    def installed(launcher, name, version, *args):
        program = name.split("/")[-1].replace("server-filesystem", "mcp-server-filesystem")
        entry = {"launcher": launcher, "name": name, "version": version, "bin": program}
        direct_client.install([entry])
        return [str(direct_client.Server(entry, "").install()), *args]

    uvx, npx = functools.partial(installed, "uvx"), functools.partial(installed, "npx")

    return {
        "time": (uvx("mcp-server-time", "2026.10.19"), "get_current_time", {"timezone": "UTC"}),
        "calculator": (uvx("mcp-server-calculator", "0.2.1"), "calculate", {"expression": "1+1"}),
        "fetch": (uvx("mcp-server-fetch", "2026.10.24"), "fetch", {"url": "http://127.0.0.1:9/"}),
        "git": (uvx("mcp-server-git", "2026.10.19"), "git_status", {"repo_path": repository}),
        "time-js": (npx("time-mcp", "1.0.6"), "days_in_month", {"date": "2024-02-11"}),
        "filesystem": (npx("@modelcontextprotocol/server-filesystem", "2026.8.31", files),
                       "list_allowed_directories", {}),
        "hello": (npx("mcp-hello-world", "1.1.2"), "echo", {"message": "x"}),
        "fetch-js": (npx("@tokenizin/mcp-npx-fetch", "1.0.0"), "fetch_txt", {"url": "http://127.0.0.1:9/"}),
    }


# Those of the ten that keep nothing between calls.
SHAREABLE = {"time", "calculator", "fetch", "git", "filesystem"}


def ten_servers(home):
    spec = importlib.util.spec_from_file_location("modes", ROOT / "benches/modes/run.py")
    modes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(modes)
    installed = modes.Fixture(None, Path(home))
    calls = {name: (tool, arguments) for name, tool, arguments in installed.calls}
    return {name: ([str(part) for part in command], *calls[name]) for name, command in installed.commands.items()}


class Window:
    def __init__(self, program, config, env):
        self.process = subprocess.Popen([program, "--no-cache", "--config", config], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        self.last_id = 0
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                    "clientInfo": {"name": "bench", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self.last_id and "method" not in message:
                return message["result"]

    def call(self, group, tool, arguments):
        return self.request("tools/call", {"name": "call_dynamic_tool",
                                           "arguments": {"group": group, "name": tool, "args": arguments}})

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def children():
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            found.setdefault(int(stat.rsplit(") ", 1)[1].split()[1]), []).append(int(entry))
    return found


def tree(roots):
    found, open_, table = [], list(roots), children()
    while open_:
        pid = open_.pop()
        found.append(pid)
        open_ += table.get(pid, [])
    return found


def pss(pids):
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def hosts(runtime):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                args = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if args[0] == b"dmcp-host" and any(arg.startswith(os.fsencode(runtime)) for arg in args):
                found.append(int(entry))
    return found


def switches(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


def measure(program, servers, share, count):
    with tempfile.TemporaryDirectory() as runtime:
        os.chmod(runtime, 0o700)
        config = Path(runtime) / "servers.json"
        entries = {name: {"command": command, "share": share(name)} for name, (command, *_) in servers.items()}
        config.write_text(json.dumps({"mcpServers": entries, "settings": {"lazy_startup": "pure"}}))
        env = {key: value for key, value in os.environ.items() if key != "CI"} | {"XDG_RUNTIME_DIR": runtime}
        windows = [Window(program, config, env) for _ in range(count)]
        times = []
        for window in windows:
            for name, (_, tool, arguments) in servers.items():
                start = time.monotonic()
                window.call(name, tool, arguments)
                times.append(time.monotonic() - start)
        first = statistics.median(times[len(servers):] or times) * 1000
        time.sleep(1)
        found = hosts(runtime)
        pids = tree([window.process.pid for window in windows] + found)
        wardens = {pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "dmcp-warden\n"}
        parents = {child: parent for parent, some in children().items() for child in some}
        result = (sum(parents.get(pid) in wardens for pid in pids), pss(pids))
        # Then the timers after a call have run.
        time.sleep(SETTLE_S)
        own = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().startswith(("dmcp-", "dynamic-mcp"))]
        before = sum(map(switches, own))
        time.sleep(IDLE_S)
        idle = sum(map(switches, own)) - before
        for window in windows:
            window.end()
        deadline = time.monotonic() + 20
        while hosts(runtime) and time.monotonic() < deadline:
            time.sleep(0.2)
        return *result, first, idle


def agents(program, servers):
    """Windows of agents that share the servers. The first window stays, and closes its connections after five minutes."""
    with tempfile.TemporaryDirectory() as runtime:
        os.chmod(runtime, 0o700)
        config = Path(runtime) / "servers.json"
        entries = {name: {"command": command, "share": "user"} for name, (command, *_) in servers.items()}
        config.write_text(json.dumps({"mcpServers": entries, "settings": {"lazy_startup": "pure"}}))
        env = {key: value for key, value in os.environ.items() if key != "CI"} | {"XDG_RUNTIME_DIR": runtime}

        def used():
            for name, (_, tool, arguments) in servers.items():
                windows[-1].call(name, tool, arguments)

        def state():
            found = hosts(runtime)
            own = tree([first.process.pid, *found])
            descriptors = sum(len(os.listdir(f"/proc/{host}/fd")) for host in found)
            return f"{len(found)} host: {pss(found):.1f} MB, {descriptors} descriptors; all: {pss(own):.0f} MB, {len(own)} processes"

        windows = [Window(program, config, env)]
        first = windows[0]
        used()
        ends = []
        for number in range(1, AGENTS + 1):
            windows.append(Window(program, config, env))
            used()
            ends.append(time.monotonic() + AGENT_LIFETIME_S)
            while ends and ends[0] <= time.monotonic():
                windows.pop(1).end()
                ends.pop(0)
            if number in (10, AGENTS // 2, AGENTS):
                print(f"after {number:2} windows, {len(windows):2} open: {state()}", flush=True)
            time.sleep(AGENT_INTERVAL_S)
        for window in windows[1:]:
            window.end()
        time.sleep(SETTLE_S)
        print(f"the first one is left:         {state()}")
        first.end()
        time.sleep(SETTLE_S + 7)
        left = [entry for entry in Path(runtime, "dynamic-mcp").rglob("*") if not entry.name.endswith("lock")]
        print(f"at the end: {len(hosts(runtime))} hosts, left in the runtime directory: {[entry.name for entry in left]}")


def main():
    args = sys.argv[1:]
    is_agents = "--agents" in args
    args = [arg for arg in args if arg != "--agents"]
    is_ten = "--ten" in args
    args = [arg for arg in args if arg != "--ten"]
    count = int(args.pop(args.index("--windows") + 1)) if "--windows" in args else 20
    args = [arg for arg in args if arg != "--windows"]
    program = os.path.realpath(args[0] if args else TARGET / "release/dynamic-mcp")
    with tempfile.TemporaryDirectory() as home:
        if is_ten:
            servers = ten_servers(home)
        else:
            repository = Path(home) / "repository"
            subprocess.run(["git", "init", "-q", repository], check=True)
            servers = eight_servers(home, str(repository))
        if is_agents:
            return agents(program, servers)
        shared = lambda name: "user" if not is_ten or name in SHAREABLE else "client"
        print(f"{len(servers)} servers, each called once by every window")
        print(f"{'':36} {'server processes':>18} {'memory, MB':>12} {'first answer, ms':>18} {'switches':>10}")
        for name, share, windows in [("1 window", lambda _: "client", 1),
                                     (f"{count} windows, private", lambda _: "client", count),
                                     ("1 window, shared", shared, 1), ("2 windows, shared", shared, 2),
                                     (f"{count} windows, shared", shared, count)]:
            processes, memory, first, idle = measure(program, servers, share, windows)
            print(f"{name:36} {processes:>18} {memory:>12.0f} {first:>18.1f} {idle:>10}", flush=True)


if __name__ == "__main__":
    main()
