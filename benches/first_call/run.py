#!/usr/bin/env python3
"""Measures the first call to a server that does not run: directly, and through dynamic-mcp in its default mode.

    cargo build --release && benches/first_call/run.py [--runs 3] [--launcher direct] [--only time]

Ten published servers, which `npx` and `uvx` start; tests/real/direct_servers.json has their versions and calls. Each call
is made four ways: by a client that starts the server itself, does the handshake and calls; as the first call through
dynamic-mcp, whose cache has the server's tools; and as the first call 3 s after `search_dynamic_tools` or
`get_dynamic_tools`. The ways alternate, so that a busy machine slows all of them. A last run has a recorder between the
server and its client, and shows what a first call consists of. Before that, two clients start: each with the ten servers, then
each with dynamic-mcp. Memory is the PSS of all processes below them. The packages are installed into target/direct. Times are in
milliseconds; with several runs, medians.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parents[2] / "tests/real"))
from direct import SERVERS
from direct_client import TARGET, Client, Server, install, path

# Package, and words that a model may search for its first call with.
TEN = {
    "@modelcontextprotocol/server-everything": "echo a message",
    "@modelcontextprotocol/server-filesystem": "read a text file",
    "@modelcontextprotocol/server-memory": "create entities in the knowledge graph",
    "@modelcontextprotocol/server-sequential-thinking": "think step by step",
    "time-mcp": "number of days in a month",
    "@coo-quack/calc-mcp": "hash of a text",
    "mcp-server-time": "convert time between timezones",
    "mcp-server-git": "status of the git repository",
    "mcp-server-calculator": "calculate an expression",
    "unit-converter-mcp": "convert temperature",
}
# How long a model thinks between a search and the call.
THINKS_S = 3
WAYS = ["direct", "cold", "search", "get"]
CLIENTS = 2
# How long after the start processes and memory are looked at: later than the idle timeout of the instances.
RESTS_S = 15
PR_SET_CHILD_SUBREAPER = 36


def record(file, command):
    """Runs a server, and writes when it started and when each message passed."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with open(file, "a", buffering=1) as log:
        note = lambda what: print(time.monotonic(), what, file=log)
        note("started")

        def pump(source, sink, arrow):
            for line in source:
                message = json.loads(line) if line.startswith(b"{") else {}
                note(f"{arrow} {message.get('method') or 'answer'} {message.get('id', '')}")
                sink.write(line)
                sink.flush()
            sink.close()

        threading.Thread(target=pump, args=(sys.stdin.buffer, server.stdin, ">"), daemon=True).start()
        pump(server.stdout, sys.stdout.buffer, "<")


def parts(file, begin):
    """What a first call consisted of: until the server was started, until it had answered `initialize`, until the call came,
    and until its answer."""
    events = [line.split(" ", 1) for line in file.read_text().splitlines()]
    at = lambda start: next((float(when), what) for when, what in events if what.startswith(start))
    (started, _), (greeted, _), (called, call) = at("started"), at("< answer"), at("> tools/call")
    answered, _ = at(f"< answer {call.split()[-1]}")
    before = [what.split()[1] for when, what in events if greeted < float(when) < called]
    times = [begin, started, greeted, called, answered]
    return [later - earlier for earlier, later in zip(times, times[1:])], before


class Bench:
    """The servers, and an instance for each way through dynamic-mcp."""

    def __init__(self, servers, program, launcher, base):
        self.servers, self.program, self.base, self.recorded = servers, program, base, None
        settings = {"launcher": launcher, "idle_timeout": "10s", "inherit_env": True}
        self.config = lambda: {"settings": settings, "mcpServers": {
            server.bin: {"command": self.command(server, "proxied")[0], "args": self.command(server, "proxied")[1:],
                         "env": server.own_environment(), "cwd": str(server.files)} for server in servers}}

    def command(self, server, way):
        command = [*server.launch, *server.arguments()]
        return command if self.recorded is None else [sys.executable, str(HERE), "--record", str(self.file(server, way)), *command]

    def file(self, server, way):
        return self.recorded / f"{server.bin}-{way}"

    def environment(self):
        return {**self.servers[0].environment(), "HOME": str(self.base), "XDG_RUNTIME_DIR": str(self.base)}

    def instance(self):
        config = self.base / "servers.json"
        config.write_text(json.dumps(self.config()))
        command = [self.program, "--config", str(config)]
        roots = [root for server in self.servers for root in server.roots()]
        return Client(command, self.environment(), self.base, roots).initialize()

    def warm(self):
        """Has the tools of all servers read into the cache, and with `launcher: direct` the starts learned."""
        instance = self.instance()
        while True:
            status = instance.request("tools/call", {"name": "get_status", "arguments": {}})["result"]["structuredContent"]
            states = {group["group"]: group["state"] for group in status["groups"]}
            if set(states.values()) <= {"discovered", "failed"}:
                break
            time.sleep(0.5)
        instance.close()
        assert set(states.values()) == {"discovered"}, states

    def call(self, server, way, instance):
        """Makes the first call. Returns when it began, and when it was answered."""
        tool, arguments = server.fill(server.entry["calls"][0])
        params, client = {"name": tool, "arguments": arguments}, instance
        if way in ("search", "get"):
            asked = {"query": TEN[server.name]} if way == "search" else {"group": server.bin, "tools": [tool]}
            instance.request("tools/call", {"name": "search_dynamic_tools" if way == "search" else "get_dynamic_tools",
                                            "arguments": asked})
            time.sleep(THINKS_S)
        begin = time.monotonic()
        if way == "direct":
            env = {**server.environment(), **server.own_environment()}
            client = Client(self.command(server, way), env, server.files, server.roots()).initialize()
        else:
            params = {"name": "call_dynamic_tool", "arguments": {"group": server.bin, "name": tool, "args": arguments}}
        answer = client.request("tools/call", params)
        took = begin, time.monotonic()
        assert answer and not answer.get("result", {"isError": True}).get("isError"), f"{server.name}, {way}: {answer}"
        if way == "direct":
            client.close()
        return took

    def run(self, ways):
        """Calls each server in each way. Returns the times."""
        instances = {way: self.instance() for way in ways if way != "direct"}
        times = {(server, way): self.call(server, way, instances.get(way)) for server in self.servers for way in ways}
        for instance in instances.values():
            instance.close()
        return times


def processes():
    """The processes below this one."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rsplit(") ", 1)[1].split()[:2]
        except OSError:
            continue
        if state != "Z":
            children.setdefault(parent, []).append(stat.parent.name)
    found = [str(os.getpid())]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def memory(pids):
    """The PSS of processes, in MB."""
    text = "".join(Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    return sum(int(kb) for kb in re.findall(r"^Pss: +([0-9]+)", text, re.M)) // 1000


def start(bench, is_direct):
    """Starts the clients at the same time. Returns the processes, the memory, and when all tools were known."""

    def begin(server=None):
        if server is None:
            client = bench.instance()
        else:
            env = {**server.environment(), **server.own_environment()}
            client = Client(bench.command(server, "direct"), env, server.files, server.roots()).initialize()
        client.list_all("tools/list", "tools")
        return client, time.monotonic()

    started, starts = time.monotonic(), [*(bench.servers if is_direct else [None])] * CLIENTS
    with concurrent.futures.ThreadPoolExecutor(len(starts)) as pool:
        clients = list(pool.map(begin, starts))
    time.sleep(RESTS_S)
    found = processes()
    row = [len(found), memory(found), max(at for _, at in clients) - started]
    for client, _ in clients:
        client.close()
    return row


def tokens(bench):
    """What the tools take directly, and with dynamic-mcp, as `check` estimates it."""
    command = [bench.program, "check", "--config", str(bench.base / "servers.json")]
    text = subprocess.run(command, env=bench.environment(), cwd=bench.base, capture_output=True, text=True).stdout
    return re.search(r"tools, ([0-9,]+) tokens; your client reads ([0-9,]+)", text).groups()


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + " --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(f"{cell * 1e3:,.0f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(TARGET.parent / "release/dynamic-mcp"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--launcher", choices=["keep", "direct"], default="keep")
    parser.add_argument("--only", default="", help="a part of the name of a package")
    args = parser.parse_args()
    entries = [entry for entry in json.loads(SERVERS.read_text()) if entry["name"] in TEN and args.only in entry["name"]]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    install(entries)
    servers = [Server(entry, args.program) for entry in entries]
    for server in servers:
        server.fresh()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        bench = Bench(servers, args.program, args.launcher, Path(directory))
        bench.warm()
        starts = [[*start(bench, is_direct), count] for is_direct, count in zip([True, False], tokens(bench))]
        names = ["processes", "memory, MB", "tools of all servers known, ms", "tokens for each client"]
        table([f"{CLIENTS} clients with {len(servers)} servers", "directly", "dynamic-mcp"], zip(names, *starts))
        print()
        runs = [bench.run(WAYS) for _ in range(args.runs)]
        middle = lambda server, way: statistics.median(end - begin for begin, end in (run[server, way] for run in runs))
        rows = [[server.bin, *(middle(server, way) for way in WAYS)] for server in servers]
        rows.append(["median", *(statistics.median(row[at] for row in rows) for at in range(1, len(WAYS) + 1))])
        goal = lambda row: [*row[:3], row[1] * 1.2 + 0.05, *row[3:]]
        table(["first call", "direct", "cold", "goal: direct + 20 % + 50 ms", "3 s after search", "3 s after get"], map(goal, rows))
        bench.recorded = Path(directory) / "recorded"
        bench.recorded.mkdir()
        bench.warm()
        shutil.rmtree(bench.recorded)
        bench.recorded.mkdir()
        rows = []
        for (server, way), (begin, _) in bench.run(WAYS[:2]).items():
            times, before = parts(bench.file(server, "direct" if way == "direct" else "proxied"), begin)
            rows.append([f"{server.bin}, {way}", *times, ", ".join(before)])
        print()
        table(["parts", "started", "initialize", "until the call", "call", "passed before the call"], rows)
    for server in servers:
        server.clean()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2], sys.argv[3:])
    else:
        main()
