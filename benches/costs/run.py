#!/usr/bin/env python3
"""Measures what dynamic-mcp costs before it does anything: the size of the binary, memory at rest, and the start.

    cargo build --release && benches/costs/run.py [--program PATH] [--only size|memory|start]

Linux only. Memory is what dynamic-mcp and its warden have beyond the file of the program, which all instances share: their
anonymous memory (/proc/PID/smaps_rollup, which only root can read). The start is the time from the spawn to an answer; spawns of an empty program (/bin/true) are measured in turns with it. docs/benchmarks.md has the figures of a run.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target")).resolve()
UPSTREAM = [sys.executable, str(HERE / "../instructions/upstream.py")]
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
TIMEOUT_SECONDS = 120
# After it, a process that has nothing to do has done all that it does by itself.
REST_SECONDS = 3


class Proxy:
    def __init__(self, program, home, servers, mode):
        config = home / f"servers-{time.monotonic_ns()}.json"
        settings = {"lazy_startup": mode, "idle_timeout": 3600}
        config.write_text(json.dumps({"mcpServers": servers, "settings": settings}, indent=2))
        self.command = [program, "--no-cache", "--log-level", "error", "--config", str(config)]
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}

    def __enter__(self):
        stdin, self.stdin = os.pipe()
        self.stdout, stdout = os.pipe()
        self.last_id, self.unread = 0, b""
        redirects = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)]
        closed = [(os.POSIX_SPAWN_CLOSE, fd) for fd in (stdin, stdout)]
        self.started = time.perf_counter()
        self.pid = os.posix_spawn(self.command[0], self.command, self.env, file_actions=redirects + closed)
        os.close(stdin)
        os.close(stdout)
        return self

    def __exit__(self, *_):
        os.close(self.stdin)
        os.close(self.stdout)
        os.waitpid(self.pid, 0)

    def send(self, method, params, **members):
        message = {"jsonrpc": "2.0", **members, "method": method, "params": params}
        os.write(self.stdin, json.dumps(message).encode() + b"\n")

    def request(self, method, params):
        """Returns the response, which is not parsed."""
        self.last_id += 1
        self.send(method, params, id=self.last_id)
        while True:
            line, newline, rest = self.unread.partition(b"\n")
            if newline:
                self.unread = rest
                if b'"id":%d,' % self.last_id in line[:60]:
                    return line
                continue
            read = os.read(self.stdout, 1 << 20)
            assert read, "dynamic-mcp has ended"
            self.unread += read

    def initialize(self):
        """Returns the milliseconds from the spawn to the answers of `initialize` and of `tools/list`."""
        assert b'"result"' in self.request("initialize", INITIALIZE)[:60]
        initialized = time.perf_counter()
        self.send("notifications/initialized", {})
        assert b'"result"' in self.request("tools/list", {})[:60]
        return (initialized - self.started) * 1e3, (time.perf_counter() - self.started) * 1e3

    def wait_until_ready(self, state):
        """Waits until every group is in the state, and asks no more than it must: questions take memory, too."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            response = self.request("tools/call", {"name": "get_status", "arguments": {}})
            groups = json.loads(response)["result"]["structuredContent"]["groups"]
            if all(group["state"] == state and not group["connecting"] for group in groups):
                return
            assert time.monotonic() < deadline, groups
            time.sleep(0.2)

    def processes(self):
        """Returns the pids of dynamic-mcp and of its warden, if it has one."""
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]


def memory_of(pid):
    """Returns the anonymous memory of a process in MB."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1.024 / 1000


def print_size(program):
    print(f"size of {program}: {os.path.getsize(program) / 1e6:.2f} MB\n")


def measure_at_rest(program, home, count, mode, state):
    """Returns the memory of each process when the groups are in the state, and after two calls to each group."""
    servers = {f"group-{n:03}": {"command": UPSTREAM} for n in range(count)}
    with Proxy(program, home, servers, mode) as proxy:
        proxy.initialize()
        if state != "pending":
            proxy.wait_until_ready(state)
        time.sleep(REST_SECONDS)
        at_rest = [memory_of(pid) for pid in proxy.processes()]
        for name in [*servers] * 2:
            call = {"name": "call_dynamic_tool", "arguments": {"group": name, "name": "echo", "args": {}}}
            assert b'"ok"' in proxy.request("tools/call", call)
        return at_rest, [memory_of(pid) for pid in proxy.processes()]


def print_memory(program, home, runs):
    states = [
        ("1 group, pending", 1, "pure", "pending"),
        ("10 groups, pending", 10, "pure", "pending"),
        ("70 groups, discovered", 70, "hybrid", "discovered"),
        ("50 groups, connected", 50, "eager", "connected"),
    ]
    print("| anonymous memory, MB | dynamic-mcp | its warden | both | after 2 calls to each |")
    print("| --- | --- | --- | --- | --- |")
    for title, *state in states:
        figures = sorted((measure_at_rest(program, home, *state) for _ in range(runs)), key=lambda both: sum(both[0]))
        at_rest, used = figures[len(figures) // 2]
        cells = [*at_rest, *[None] * (2 - len(at_rest)), sum(at_rest), sum(used)]
        print(f"| {title} | " + " | ".join(map(format_memory, cells)) + " |", flush=True)
    print()


def format_memory(memory):
    return f"{memory:.1f}" if memory else "–"


def spawn_empty_program():
    begin = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return (time.perf_counter() - begin) * 1e3


def print_start(program, home, starts):
    print("| from the spawn to the answer, ms | an empty program | `initialize` | `tools/list` |")
    print("| --- | --- | --- | --- |")
    for count in (1, 1000):
        entry = lambda n: {"command": UPSTREAM, "description": f"Notes of project {n}: writes and finds them"}
        servers = {f"group-{n:04}": entry(n) for n in range(count)}
        proxy = Proxy(program, home, servers, "pure")
        rows = []
        for _ in range(starts):
            empty = spawn_empty_program()
            with proxy:
                rows.append((empty, *proxy.initialize()))
        cells = [f"{statistics.median(column):.2f} ({min(column):.2f} – {max(column):.2f})" for column in zip(*rows)]
        print(f"| {count:,} groups | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(TARGET / "release/dynamic-mcp"), help="the binary to measure")
    parser.add_argument("--only", choices=["size", "memory", "start"], help="measure only this")
    parser.add_argument("--runs", type=int, default=3, help="how often memory is measured; the median is printed")
    parser.add_argument("--starts", type=int, default=60, help="how often the start is measured")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    wanted = lambda what: options.only in (None, what)
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        if wanted("size"):
            print_size(program)
        if wanted("memory"):
            print_memory(program, home, options.runs)
        if wanted("start"):
            print_start(program, home, options.starts)


if __name__ == "__main__":
    main()
