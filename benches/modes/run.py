#!/usr/bin/env python3
"""Measures the three modes with ten real servers, the same servers without dynamic-mcp, and a thousand groups.

    benches/modes/setup && cargo build --release && benches/modes/run.py

Linux only: memory is the sum of PSS (a page that several processes share counts in parts) in /proc/PID/smaps_rollup of
dynamic-mcp and of all its descendants; that of dynamic-mcp itself is what it has beyond the file of the program
(Anonymous). Every figure is the median of the runs (lowest - highest). docs/benchmarks.md has
the figures of a run.
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
POLL_INTERVAL_SECONDS = 0.02
TIMEOUT_SECONDS = 120
# dynamic-mcp and its warden.
OWN_PROCESSES = 2


class Client:
    """Starts a server and is its client, on stdin and stdout."""

    def __init__(self, command, home, **env):
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **env},
        )
        self.responses = queue.Queue()
        self.last_id = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self.responses.put(message)
        self.responses.put(None)

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        """Returns the result."""
        self.last_id += 1
        self.send(id=self.last_id, method=method, params=params)
        response = self.responses.get(timeout=TIMEOUT_SECONDS)
        assert response and response["id"] == self.last_id and "result" in response, (method, params, response)
        return response["result"]

    def request_all(self, method, all_params):
        """Sends all requests before it waits for the first response."""
        for n, params in enumerate(all_params):
            self.send(id=f"all-{n}", method=method, params=params)
        return [self.responses.get(timeout=TIMEOUT_SECONDS)["result"] for _ in all_params]

    def initialize(self):
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        result = self.request("initialize", params)
        self.send(method="notifications/initialized")
        return result

    def call_tool(self, tool, arguments):
        """Returns the milliseconds that the call took, and its result, which must not be an error."""
        begin = time.monotonic()
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), (tool, arguments, result)
        return (time.monotonic() - begin) * 1e3, result

    def age_ms(self):
        """Milliseconds since the process was started."""
        return (time.monotonic() - self.started) * 1e3

    def shut_down(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ProxyClient(Client):
    """A client of dynamic-mcp. `seen_servers` are the processes of servers that any look at the process tree found."""

    def __init__(self, fixture, config, cache, *flags):
        command = [fixture.program, "--config", config, *flags]
        super().__init__(command, fixture.home, XDG_CACHE_HOME=str(cache))
        self.seen_servers = set()
        self.initialize()
        self.initialize_ms = self.age_ms()
        self.request("tools/list", {})
        self.tools_list_ms = self.age_ms()

    def process_tree(self):
        pids = process_tree(self.process.pid, parents := {})
        # Servers are the children of the warden. What they start themselves is not counted.
        is_server = lambda pid: parents.get(parents.get(pid)) == self.process.pid
        self.seen_servers.update(pid for pid in pids if is_server(pid))
        return pids

    def status(self):
        return self.call_tool("get_status", {})[1]["structuredContent"]

    def call_upstream(self, call):
        """Returns the milliseconds that a (group, tool, arguments) took."""
        return self.call_tool("call_dynamic_tool", call_arguments(call))[0]

    def call_all_upstreams(self, calls):
        """Makes all calls at once and returns the milliseconds until the last result."""
        begin = time.monotonic()
        params = [{"name": "call_dynamic_tool", "arguments": call_arguments(call)} for call in calls]
        self.request_all("tools/call", params)
        return (time.monotonic() - begin) * 1e3

    def wait_until(self, condition):
        """Returns the milliseconds since the start at which the condition held for the first time."""
        while not condition():
            self.process_tree()
            failed = [group for group in self.status()["groups"] if group["error"]]
            assert not failed, failed
            assert self.age_ms() < TIMEOUT_SECONDS * 1e3, self.status()
            time.sleep(POLL_INTERVAL_SECONDS)
        self.process_tree()
        return self.age_ms()

    def knows_all_tools(self):
        status = self.status()
        return status["ready"] == status["total"]

    def is_settled(self):
        """Start-up is over, and the servers that were started only for their tools have exited."""
        status = self.status()
        has_connected = any(group["state"] == "connected" for group in status["groups"])
        is_connecting = any(group["connecting"] for group in status["groups"])
        return status["status"] == "ready" and not is_connecting and (has_connected or self.has_no_servers())

    def has_no_servers(self):
        return len(self.process_tree()) <= OWN_PROCESSES


def call_arguments(call):
    group, name, args = call
    return {"group": group, "name": name, "args": args}


class Fixture:
    """The ten servers, the files that they work on, and a harmless call to each."""

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
            # Both answer that there is none: a page and a browser need a network.
            ("fetch", "fetch", {"url": "http://127.0.0.1:1/"}),
            ("browser", "browser_tabs", {"action": "list"}),
        ]

    def write_config(self, mode, **settings):
        servers = {name: {"command": [str(part) for part in c]} for name, c in self.commands.items()}
        return self.write_json({"mcpServers": servers, "settings": {"lazy_startup": mode, **settings}})

    def write_json(self, config):
        path = self.home / f"servers-{time.monotonic_ns()}.json"
        path.write_text(json.dumps(config, indent=2))
        return path

    def create_cache(self):
        return Path(tempfile.mkdtemp(dir=self.home))


def process_tree(root, parents=None):
    """Returns the process and all its descendants, and fills `parents` with the parent of every process."""
    parents, children = {} if parents is None else parents, {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents[int(entry.name)] = parent
                children.setdefault(parent, []).append(int(entry.name))
        except OSError:
            pass  # It has exited meanwhile.
    pids, unvisited = [], [root]
    while unvisited:
        pid = unvisited.pop()
        pids.append(pid)
        unvisited.extend(children.get(pid, []))
    return pids


def memory_mb(pids, key="Pss:"):
    kilobytes = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith(key))
        except OSError:
            pass  # It has exited meanwhile.
    return kilobytes / 1024


class Table:
    """Figures by row and column, printed as Markdown."""

    def __init__(self, columns):
        self.columns, self.rows = columns, {}

    def add(self, row, column, figure):
        self.rows.setdefault(row, {}).setdefault(column, []).append(figure)

    def print(self):
        print("| | " + " | ".join(self.columns) + " |")
        print("| --- |" + " --- |" * len(self.columns))
        for row, cells in self.rows.items():
            print(f"| {row} | " + " | ".join(format_cell(cells.get(column)) for column in self.columns) + " |")
        print(flush=True)


def format_cell(figures):
    if not figures:
        return "–"
    low, median, high = min(figures), statistics.median(figures), max(figures)
    digits = 1 if median < 100 and not all(float(f).is_integer() for f in figures) else 0
    text = lambda figure: f"{figure:,.{digits}f}"
    return text(median) if low == high else f"{text(median)} ({text(low)} – {text(high)})"


def measure_without_proxy(fixture, table):
    """Starts all ten at once, as a client without dynamic-mcp does."""
    begin = time.monotonic()
    clients = [Client(command, fixture.home) for command in fixture.commands.values()]
    listed_ms = []

    def list_tools(client):
        client.initialize()
        client.request("tools/list", {})
        listed_ms.append((time.monotonic() - begin) * 1e3)

    threads = [threading.Thread(target=list_tools, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(listed_ms) == len(clients)
    table.add("the first answered `tools/list`, ms", "10 servers", min(listed_ms))
    table.add("the last answered `tools/list`, ms", "10 servers", max(listed_ms))
    time.sleep(1)
    pids = [pid for client in clients for pid in process_tree(client.process.pid)]
    table.add("memory, MB", "10 servers", memory_mb(pids))
    table.add("processes", "10 servers", len(pids))
    for client in clients:
        client.shut_down()


def measure_first_start(fixture, mode, table, cache):
    """Starts with an empty cache."""
    proxy = ProxyClient(fixture, fixture.write_config(mode, idle_timeout=IDLE_SECONDS), cache)
    add = lambda row, figure: table.add(row, mode, figure)
    add("spawn to answer of `initialize`, ms", proxy.initialize_ms)
    add("spawn to answer of `tools/list`, ms", proxy.tools_list_ms)
    if mode != "pure":
        add("spawn to all tools known, ms", proxy.wait_until(proxy.knows_all_tools))
    add("spawn to quiet, ms", proxy.wait_until(proxy.is_settled))
    add("servers started by then", len(proxy.seen_servers))
    time.sleep(1)
    add_memory_rows(proxy, add, "quiet")
    add("call to a Node server, first, ms", proxy.call_upstream(fixture.node_call))
    add("call to a Node server, second, ms", proxy.call_upstream(fixture.node_call))
    add("call to a Python server, first, ms", proxy.call_upstream(fixture.python_call))
    add("call to a Python server, second, ms", proxy.call_upstream(fixture.python_call))
    # All ten are used at the same time, then none.
    add("a call to each at once, last answer, ms", proxy.call_all_upstreams(fixture.calls))
    last_use = time.monotonic()
    add_memory_rows(proxy, add, "after a use of each")
    if mode == "eager":
        time.sleep(IDLE_SECONDS + 4)
    else:
        proxy.wait_until(proxy.has_no_servers)
        add("last use to the last server gone, s", time.monotonic() - last_use)
    add_memory_rows(proxy, add, f"after {IDLE_SECONDS} s idle")
    proxy.shut_down()


def add_memory_rows(proxy, add, when):
    pids = proxy.process_tree()
    add(f"{when}: memory, MB", memory_mb(pids))
    add(f"{when}: processes", len(pids))


def measure_second_start(fixture, mode, table, cache):
    """Starts with a cache that has the tools of all servers."""
    proxy = ProxyClient(fixture, fixture.write_config(mode, idle_timeout=IDLE_SECONDS), cache)
    add = lambda row, figure: table.add(row, mode, figure)
    add("spawn to answer of `initialize`, ms", proxy.initialize_ms)
    add("spawn to answer of `tools/list`, ms", proxy.tools_list_ms)
    add("spawn to all tools known, ms", proxy.wait_until(proxy.knows_all_tools))
    add("spawn to quiet, ms", proxy.wait_until(proxy.is_settled))
    time.sleep(2)
    proxy.process_tree()
    add("servers started by then", len(proxy.seen_servers))
    add_memory_rows(proxy, add, "quiet")
    add("`get_dynamic_tools` of a server, ms", proxy.call_tool("get_dynamic_tools", {"group": "time"})[0])
    add("call to a Node server, first, ms", proxy.call_upstream(fixture.node_call))
    add("call to a Python server, first, ms", proxy.call_upstream(fixture.python_call))
    proxy.shut_down()


def measure_many_groups(fixture, groups, table):
    """Starts with this many groups, all of the server that is built in for the demo."""
    def write_config(mode):
        entry = lambda n: {
            "command": str(fixture.program),
            "args": ["__demo-server", "work"],
            "env": {"N": str(n)},
            "description": f"Notes of project {n}: writes them down and finds them again",
        }
        servers = {f"group-{n:04}": entry(n) for n in range(groups)}
        return fixture.write_json({"mcpServers": servers, "settings": {"lazy_startup": mode}})

    def measure(column, mode, cache):
        proxy = ProxyClient(fixture, write_config(mode), cache)
        add = lambda row, figure: table.add(row, column, figure)
        add("spawn to answer of `initialize`, ms", proxy.initialize_ms)
        add("spawn to answer of `tools/list`, ms", proxy.tools_list_ms)
        if mode != "pure":
            add("spawn to all tools known, ms", proxy.wait_until(proxy.knows_all_tools))
            proxy.wait_until(proxy.is_settled)
            time.sleep(1)
        add("anonymous memory of dynamic-mcp itself, MB", memory_mb([proxy.process.pid], "Anonymous:"))
        add("`tools/list` again, ms", timed_ms(lambda: proxy.request("tools/list", {})))
        add("`get_status`, ms", timed_ms(proxy.status))
        add("first call, ms", proxy.call_upstream((f"group-{groups - 1:04}", "list_notes", {})))
        proxy.shut_down()

    cache = fixture.create_cache()
    measure("pure, nothing cached", "pure", fixture.create_cache())
    measure("hybrid, nothing cached", "hybrid", cache)
    measure("hybrid, all cached", "hybrid", cache)


def timed_ms(work):
    begin = time.monotonic()
    work()
    return (time.monotonic() - begin) * 1e3


def fill_cache(fixture, cache):
    """Has dynamic-mcp learn all tools, if the cache is empty."""
    if not any(cache.iterdir()):
        proxy = ProxyClient(fixture, fixture.write_config("hybrid"), cache)
        proxy.wait_until(proxy.is_settled)
        proxy.shut_down()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=TARGET / "release/dynamic-mcp", help="the binary to measure")
    parser.add_argument("--runs", type=int, default=5, help="how often each table is measured")
    parser.add_argument("--groups", type=int, default=1000, help="the number of groups of the last table")
    parser.add_argument("--only", choices=["direct", "first", "second", "many"], help="measure only this table")
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
    # SIGTERM ends the script as Ctrl-C does. Its exit closes the stdin of every process that it started.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with tempfile.TemporaryDirectory() as home:
        fixture = Fixture(options.program.resolve(), Path(home))
        caches = {mode: fixture.create_cache() for mode in modes}
        # Once without measuring, so that every run finds the files in memory.
        measure_without_proxy(fixture, Table(["10 servers"]))
        for _ in range(options.runs):
            for name, (_, table) in tables.items():
                if name == "direct":
                    measure_without_proxy(fixture, table)
                elif name == "first":
                    for mode in modes:
                        measure_first_start(fixture, mode, table, fixture.create_cache())
                elif name == "second":
                    for mode in modes:
                        fill_cache(fixture, caches[mode])
                        measure_second_start(fixture, mode, table, caches[mode])
                else:
                    measure_many_groups(fixture, options.groups, table)
        for title, table in tables.values():
            print(f"### {title}\n")
            table.print()


if __name__ == "__main__":
    main()
