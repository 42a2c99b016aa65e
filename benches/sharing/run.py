#!/usr/bin/env python3
"""Measures what 20 windows cost with private and with shared servers: processes and memory.

    cargo build --release
    benches/sharing/run.py [PROGRAM] [--windows N]

It uses real servers that tests/real/shareable.py has installed into target/shareable. Memory is the sum of the PSS of
all windows, wardens, hosts and servers: a page that several processes use counts in parts. At the end it counts the
context switches of the idle host in 10 s; a process that makes system calls has some.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
INSTALLED = TARGET / "shareable"
IDLE_S = 10


def servers():
    def python(name, version):
        return [str(INSTALLED / f"{name}-{version}" / "bin" / name)]

    node = INSTALLED / "time-mcp-1.0.6/node_modules/time-mcp"
    binary = json.loads((node / "package.json").read_text())["bin"]
    file = binary if isinstance(binary, str) else next(iter(binary.values()))
    return {
        "time": (python("mcp-server-time", "2026.10.19"), "get_current_time", {"timezone": "UTC"}),
        "calculator": (python("mcp-server-calculator", "0.2.1"), "calculate", {"expression": "1+1"}),
        "fetch": (python("mcp-server-fetch", "2026.10.24"), "fetch", {"url": "http://127.0.0.1:9/"}),
        "time-js": (["node", str(node / file)], "days_in_month", {"date": "2024-02-11"}),
    }


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


def measure(program, share, count):
    with tempfile.TemporaryDirectory() as runtime:
        os.chmod(runtime, 0o700)
        config = Path(runtime) / "servers.json"
        entries = {name: {"command": command, "share": share} for name, (command, *_) in servers().items()}
        config.write_text(json.dumps({"mcpServers": entries, "settings": {"lazy_startup": "pure"}}))
        env = {key: value for key, value in os.environ.items() if key != "CI"} | {"XDG_RUNTIME_DIR": runtime}
        windows = [Window(program, config, env) for _ in range(count)]
        for window in windows:
            for name, (_, tool, arguments) in servers().items():
                window.call(name, tool, arguments)
        time.sleep(1)
        found = hosts(runtime)
        pids = tree([window.process.pid for window in windows] + found)
        ours = {b"dmcp-host", b"dmcp-warden", os.fsencode(program)}
        is_server = lambda pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] not in ours
        result = (sum(map(is_server, pids)), pss(pids))
        idle = None
        if found:
            before = switches(found[0])
            time.sleep(IDLE_S)
            idle = switches(found[0]) - before
        for window in windows:
            window.end()
        deadline = time.monotonic() + 20
        while hosts(runtime) and time.monotonic() < deadline:
            time.sleep(0.2)
        return *result, idle


def main():
    args = sys.argv[1:]
    count = int(args.pop(args.index("--windows") + 1)) if "--windows" in args else 20
    args = [arg for arg in args if arg != "--windows"]
    program = os.path.realpath(args[0] if args else TARGET / "release/dynamic-mcp")
    print(f"{len(servers())} servers, each called once by every window")
    print(f"{'':36} {'server processes':>18} {'memory, MB':>12}")
    for name, share, windows in [("1 window", "client", 1), (f"{count} windows, private", "client", count),
                                 (f"{count} windows, shared", "user", count)]:
        processes, memory, idle = measure(program, share, windows)
        print(f"{name:36} {processes:>18} {memory:>12.0f}", flush=True)
    print(f"context switches of the idle host in {IDLE_S} s: {idle}")


if __name__ == "__main__":
    main()
