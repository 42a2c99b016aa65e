#!/usr/bin/env python3
"""The three modes with ten real servers, the same servers without dynamic-mcp, and a thousand groups.

    benches/modes/setup && cargo build --release && benches/modes/run.py

Linux only: memory is the sum of PSS (each shared page counted in parts) over /proc/PID/smaps_rollup, of dynamic-mcp
and of everything below it. Every figure is a median of runs (lowest - highest). docs/benchmarks.md has a run.
"""

import argparse
import json
import os
import queue
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target")).resolve()
IDLE_SECONDS = 3
LOOK = 0.02
LIMIT = 120


class Server:
    """A client of one server on stdin and stdout."""

    def __init__(self, command, home, **env):
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **env},
        )
        self.answers = queue.Queue()
        self.next_id = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self.answers.put(message)
        self.answers.put(None)

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.next_id += 1
        self.send(id=self.next_id, method=method, params=params)
        answer = self.answers.get(timeout=LIMIT)
        assert answer and answer["id"] == self.next_id and "result" in answer, (method, params, answer)
        return answer["result"]

    def initialize(self):
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        result = self.ask("initialize", params)
        self.send(method="notifications/initialized")
        return result

    def call(self, tool, arguments):
        """How long it took, in ms, and the result, which must be a good one."""
        begin = time.monotonic()
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), (tool, arguments, result)
        return (time.monotonic() - begin) * 1e3, result

    def ask_all(self, method, many):
        """Asks everything before it waits for the first answer."""
        for n, params in enumerate(many):
            self.send(id=f"all-{n}", method=method, params=params)
        return [self.answers.get(timeout=LIMIT)["result"] for _ in many]

    def age(self):
        return (time.monotonic() - self.begin) * 1e3

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Proxy(Server):
    """A client of dynamic-mcp. `seen` are the servers that ran at any look."""

    def __init__(self, stage, config, cache, *flags):
        command = [stage.program, "--config", config, *flags]
        super().__init__(command, stage.home, XDG_CACHE_HOME=str(cache))
        self.seen = set()
        self.initialize()
        self.initialized = self.age()
        self.ask("tools/list", {})
        self.listed = self.age()

    def tree(self):
        pids = tree(self.process.pid, parents := {})
        # Servers are the warden's children; what they start themselves is not counted.
        self.seen.update(pid for pid in pids if parents.get(parents.get(pid)) == self.process.pid)
        return pids

    def status(self):
        return self.call("get_status", {})[1]["structuredContent"]

    def tool(self, use):
        return self.call("call_dynamic_tool", arguments(use))[0]

    def use_all(self, uses):
        """A call to each, all at once: when the last was answered, in ms."""
        begin = time.monotonic()
        self.ask_all("tools/call", [{"name": "call_dynamic_tool", "arguments": arguments(use)} for use in uses])
        return (time.monotonic() - begin) * 1e3

    def until(self, holds):
        """How long after the spawn that held first, in ms."""
        while not holds():
            self.tree()
            failed = [g for g in self.status()["groups"] if g["error"]]
            assert not failed, failed
            assert self.age() < LIMIT * 1e3, self.status()
            time.sleep(LOOK)
        self.tree()
        return self.age()

    def all_known(self):
        status = self.status()
        return status["ready"] == status["total"]

    def settled(self):
        """Start-up is over, and what it started only to look at has ended."""
        status = self.status()
        connected = sum(group["state"] == "connected" for group in status["groups"])
        busy = any(group["connecting"] for group in status["groups"])
        return status["status"] == "ready" and not busy and (connected or len(self.tree()) <= 2)

    def only_us(self):
        return len(self.tree()) <= 2


def arguments(use):
    group, name, args = use
    return {"group": group, "name": name, "args": args}


class Stage:
    """The ten servers, what they work on, and a harmless call to each."""

    def __init__(self, program, home):
        self.program, self.home = program, home
        modes = TARGET / "modes"
        assert (modes / "ready").exists(), "run benches/modes/setup first"
        (home / "files").mkdir()
        subprocess.run(["git", "init", "--quiet", home / "repository"], check=True)
        node, packages = shutil.which("node"), modes / "node_modules"
        npm = lambda name: [node, packages / "@modelcontextprotocol" / f"server-{name}" / "dist/index.js"]
        python = lambda module: [modes / "python2/bin/python", "-m", module]
        old_python = lambda name: [modes / "python1/bin/python", modes / "python1/bin" / name]
        self.commands = {
            "everything": [*npm("everything"), "stdio"],
            "filesystem": [*npm("filesystem"), home / "files"],
            "memory": npm("memory"),
            "thinking": npm("sequential-thinking"),
            "browser": [node, packages / "@playwright/mcp/cli.js", "--headless"],
            "time": python("mcp_server_time"),
            "git": [*python("mcp_server_git"), "--repository", home / "repository"],
            "fetch": python("mcp_server_fetch"),
            "sqlite": [*old_python("mcp-server-sqlite"), "--db-path", home / "data.db"],
            "calculator": old_python("mcp-server-calculator"),
        }
        thought = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
        self.node_call = ("everything", "echo", {"message": "x"})
        self.python_call = ("time", "get_current_time", {"timezone": "UTC"})
        self.calls = [
            self.node_call,
            ("filesystem", "list_allowed_directories", {}),
            ("memory", "read_graph", {}),
            ("thinking", "sequentialthinking", thought),
            self.python_call,
            ("git", "git_status", {"repo_path": str(home / "repository")}),
            ("sqlite", "list_tables", {}),
            ("calculator", "calculate", {"expression": "6*7"}),
            # Both say that they have no such thing; a page and a browser are not to be had without a network.
            ("fetch", "fetch", {"url": "http://127.0.0.1:1/"}),
            ("browser", "browser_tabs", {"action": "list"}),
        ]

    def config(self, mode, **settings):
        servers = {name: {"command": [str(part) for part in c]} for name, c in self.commands.items()}
        return self.write({"mcpServers": servers, "settings": {"lazy_startup": mode, **settings}})

    def write(self, config):
        path = self.home / f"servers-{time.monotonic_ns()}.json"
        path.write_text(json.dumps(config, indent=2))
        return path

    def cache(self):
        return Path(tempfile.mkdtemp(dir=self.home))


def tree(root, parents=None):
    """The process and all below it; their parents into `parents`."""
    parents, children = {} if parents is None else parents, {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents[int(entry.name)] = parent
                children.setdefault(parent, []).append(int(entry.name))
        except OSError:
            pass  # It has ended meanwhile.
    pids, todo = [], [root]
    while todo:
        pid = todo.pop()
        pids.append(pid)
        todo.extend(children.get(pid, []))
    return pids


def memory(pids, what="Pss:"):
    """In MB."""
    kilobytes = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith(what))
        except OSError:
            pass
    return kilobytes / 1024


class Table:
    def __init__(self, columns):
        self.columns, self.rows = columns, {}

    def add(self, row, column, figure):
        self.rows.setdefault(row, {}).setdefault(column, []).append(figure)

    def print(self):
        print("| | " + " | ".join(self.columns) + " |")
        print("| --- |" + " --- |" * len(self.columns))
        for row, cells in self.rows.items():
            print(f"| {row} | " + " | ".join(cell(cells.get(column)) for column in self.columns) + " |")
        print(flush=True)


def cell(figures):
    if not figures:
        return "–"
    low, median, high = min(figures), statistics.median(figures), max(figures)
    digits = 1 if median < 100 and not all(float(f).is_integer() for f in figures) else 0
    text = lambda figure: f"{figure:,.{digits}f}"
    return text(median) if low == high else f"{text(median)} ({text(low)} – {text(high)})"


def direct(stage, table):
    """All ten at once, as a client without dynamic-mcp starts them."""
    begin = time.monotonic()
    servers = [Server(command, stage.home) for command in stage.commands.values()]
    answered = []

    def ready(server):
        server.initialize()
        server.ask("tools/list", {})
        answered.append((time.monotonic() - begin) * 1e3)

    threads = [threading.Thread(target=ready, args=[server]) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == len(servers)
    table.add("the first answered `tools/list`, ms", "10 servers", min(answered))
    table.add("the last answered `tools/list`, ms", "10 servers", max(answered))
    time.sleep(1)
    pids = [pid for server in servers for pid in tree(server.process.pid)]
    table.add("memory, MB", "10 servers", memory(pids))
    table.add("processes", "10 servers", len(pids))
    for server in servers:
        server.end()


def first_start(stage, mode, table, cache):
    proxy = Proxy(stage, stage.config(mode, idle_timeout=IDLE_SECONDS), cache)
    add = lambda row, figure: table.add(row, mode, figure)
    add("spawn to answer of `initialize`, ms", proxy.initialized)
    add("spawn to answer of `tools/list`, ms", proxy.listed)
    if mode != "pure":
        add("spawn to all tools known, ms", proxy.until(proxy.all_known))
    add("spawn to quiet, ms", proxy.until(proxy.settled))
    add("servers started by then", len(proxy.seen))
    time.sleep(1)
    rest(proxy, add, "quiet")
    add("call to a Node server, first, ms", proxy.tool(stage.node_call))
    add("call to a Node server, second, ms", proxy.tool(stage.node_call))
    add("call to a Python server, first, ms", proxy.tool(stage.python_call))
    add("call to a Python server, second, ms", proxy.tool(stage.python_call))
    # All ten in use, at the same time, then none.
    add("a call to each at once, last answer, ms", proxy.use_all(stage.calls))
    used = time.monotonic()
    rest(proxy, add, "after a use of each")
    if mode == "eager":
        time.sleep(IDLE_SECONDS + 4)
    else:
        proxy.until(proxy.only_us)
        add("last use to the last server gone, s", time.monotonic() - used)
    rest(proxy, add, f"after {IDLE_SECONDS} s idle")
    proxy.end()


def rest(proxy, add, when):
    pids = proxy.tree()
    add(f"{when}: memory, MB", memory(pids))
    add(f"{when}: processes", len(pids))


def second_start(stage, mode, table, cache):
    """With what an earlier start remembers."""
    proxy = Proxy(stage, stage.config(mode, idle_timeout=IDLE_SECONDS), cache)
    add = lambda row, figure: table.add(row, mode, figure)
    add("spawn to answer of `initialize`, ms", proxy.initialized)
    add("spawn to answer of `tools/list`, ms", proxy.listed)
    add("spawn to all tools known, ms", proxy.until(proxy.all_known))
    add("spawn to quiet, ms", proxy.until(proxy.settled))
    time.sleep(2)
    proxy.tree()
    add("servers started by then", len(proxy.seen))
    rest(proxy, add, "quiet")
    add("`get_dynamic_tools` of a server, ms", proxy.call("get_dynamic_tools", {"group": "time"})[0])
    add("call to a Node server, first, ms", proxy.tool(stage.node_call))
    add("call to a Python server, first, ms", proxy.tool(stage.python_call))
    proxy.end()


def many(stage, groups, table):
    """So many groups of a server that is built in and takes no time."""
    def config(mode):
        entry = lambda n: {
            "command": str(stage.program),
            "args": ["__demo-server", "work"],
            "env": {"N": str(n)},
            "description": f"Notes of project {n}: writes them down and finds them again",
        }
        servers = {f"group-{n:04}": entry(n) for n in range(groups)}
        return stage.write({"mcpServers": servers, "settings": {"lazy_startup": mode}})

    def start(column, mode, cache, *flags):
        proxy = Proxy(stage, config(mode), cache, *flags)
        add = lambda row, figure: table.add(row, column, figure)
        add("spawn to answer of `initialize`, ms", proxy.initialized)
        add("spawn to answer of `tools/list`, ms", proxy.listed)
        if mode != "pure":
            add("spawn to all tools known, ms", proxy.until(proxy.all_known))
            proxy.until(proxy.settled)
            time.sleep(1)
        pids = proxy.tree()
        add("memory of dynamic-mcp itself (RSS), MB", memory([proxy.process.pid], "Rss:"))
        add("`tools/list` again, ms", timed(lambda: proxy.ask("tools/list", {})))
        add("`get_status`, ms", timed(proxy.status))
        add("first call, ms", proxy.tool((f"group-{groups - 1:04}", "list_notes", {})))
        proxy.end()

    cache = stage.cache()
    start("pure, nothing cached", "pure", stage.cache())
    start("hybrid, nothing cached", "hybrid", cache)
    start("hybrid, all cached", "hybrid", cache)


def timed(work):
    begin = time.monotonic()
    work()
    return (time.monotonic() - begin) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=TARGET / "release/dynamic-mcp")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--only", choices=["direct", "first", "second", "many"])
    options = parser.parse_args()
    modes = ["eager", "hybrid", "pure"]
    tables = {
        "direct": ("Without dynamic-mcp: all ten at once", Table(["10 servers"])),
        "first": ("The first start: nothing is known", Table(modes)),
        "second": ("The second start: the catalog cache knows all", Table(modes)),
        "many": (f"{options.groups} groups", Table(["pure, nothing cached", "hybrid, nothing cached", "hybrid, all cached"])),
    }
    if options.only:
        tables = {options.only: tables[options.only]}
    # As a service manager or a terminal ends it: everything started here is closed by its stdin.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with tempfile.TemporaryDirectory() as home:
        stage = Stage(options.program.resolve(), Path(home))
        caches = {mode: stage.cache() for mode in modes}
        # Once unmeasured, so that every run finds the files in memory.
        direct(stage, Table(["10 servers"]))
        for _ in range(options.runs):
            for name, (_, table) in tables.items():
                if name == "direct":
                    direct(stage, table)
                elif name == "first":
                    for mode in modes:
                        first_start(stage, mode, table, stage.cache())
                elif name == "second":
                    for mode in modes:
                        remember(stage, caches[mode])
                        second_start(stage, mode, table, caches[mode])
                else:
                    many(stage, options.groups, table)
        for title, table in tables.values():
            print(f"### {title}\n")
            table.print()


def remember(stage, cache):
    """Fills a cache that is empty."""
    if not any(cache.iterdir()):
        proxy = Proxy(stage, stage.config("hybrid"), cache)
        proxy.until(proxy.settled)
        proxy.end()


if __name__ == "__main__":
    main()
