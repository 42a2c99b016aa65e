#!/usr/bin/env python3
"""Measures what a hostile server costs the calls of another server.

    cargo build --release && benches/hostile/run.py [--program PATH] [--only TEXT] [--runs N]

Each shape of `shapes.py` is the list or the answer of a server `evil`, which is read, listed, described, searched,
called and shut down, while a server `good` is called all the time. Printed are the times of the calls of `good`, the
peak of the anonymous memory (RssAnon of /proc/PID/status), and how long the process lives after its client has gone
while it works. Linux only. The goal: p99 at most 100 ms, maximum 300 ms, memory 400 MB, end 1500 ms. docs/benchmarks.md
has the figures of a run.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import shapes

HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target")).resolve()
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
# No request may take longer: whatever does is a failure.
TIMEOUT_SECONDS = 60
# The pause between two calls of `good`.
PAUSE_SECONDS = 0.002
# How long the hostile server is used at least, so that there are enough calls of `good` for a percentile.
ATTACK_SECONDS = 3
GOAL = {"p99": 100, "max": 300, "memory": 400, "end": 1500}


class Client:
    def __init__(self, program, home, config):
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(home)}
        command = [program, "--log-level", "error", "--config", str(config)]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.answers, self.waiting, self.lock, self.last_id = {}, {}, threading.Lock(), 0
        self.peak_kb, self.is_open, self.current = 0, True, "the start"
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=self.watch, daemon=True).start()

    def read(self):
        parts = []
        while chunk := os.read(self.process.stdout.fileno(), 1 << 20):
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                line = b"".join([*parts, chunk[start:end]])
                parts, start = [], end + 1
                self.answered(line, time.perf_counter())
            parts.append(chunk[start:])

    def answered(self, line, at):
        head = line[:80]
        if b'"id":' not in head:
            return
        id = int(head.split(b'"id":', 1)[1].split(b",", 1)[0])
        with self.lock:
            event = self.waiting.pop(id, None)
            if event:
                self.answers[id] = (at, line)
                event.set()

    def watch(self):
        while self.is_open:
            try:
                for line in open(f"/proc/{self.process.pid}/status"):
                    if line.startswith("RssAnon"):
                        self.peak_kb = max(self.peak_kb, int(line.split()[1]))
            except OSError:
                return
            time.sleep(0.02)

    def send(self, method, params, id=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if id is not None:
            message["id"] = id
        text = json.dumps(message).encode() + b"\n"
        with self.lock:
            self.process.stdin.write(text)

    def start(self, method, params):
        with self.lock:
            self.last_id += 1
            id, event = self.last_id, threading.Event()
            self.waiting[id] = event
        self.send(method, params, id)
        return id, event

    def request(self, method, params):
        """Returns the milliseconds until the answer, and the answer."""
        begin = time.perf_counter()
        id, event = self.start(method, params)
        if not event.wait(TIMEOUT_SECONDS):
            state = "has ended" if self.process.poll() is not None else "does not answer"
            raise TimeoutError(f"{method}: the process {state}")
        at, line = self.answers.pop(id)
        return (at - begin) * 1e3, line

    def tool(self, tool, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def close(self):
        """Closes stdin, and returns the milliseconds until the process has ended."""
        begin = time.perf_counter()
        self.process.stdin.close()
        try:
            self.process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.is_open = False
        return (time.perf_counter() - begin) * 1e3


def probe(client, times, stop):
    """Calls `good` until it is told to stop. A call that is never answered counts as long as it was waited for."""
    while not stop.is_set():
        begin = time.perf_counter()
        try:
            took, line = client.tool("call_dynamic_tool", group="good", name="echo", args={"text": "x"})
            assert b'"ok"' in line, line[:300]
        except (TimeoutError, OSError):
            times.append(((time.perf_counter() - begin) * 1e3, client.current))
            return
        times.append((took, client.current))
        time.sleep(PAUSE_SECONDS)


def wait_until_known(client):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        status = json.loads(client.tool("get_status")[1])["result"]["structuredContent"]
        if all(group["attempts"] or not group["connecting"] and group["cached"] is not None for group in status["groups"]):
            return
        time.sleep(0.05)
    raise TimeoutError("the lists were not read")


def long_requests():
    """Requests with 2 MB, or as much as a name, a query or a URI may have, of what costs most to read, compare and split."""
    def ours(tool, **arguments):
        return "tools/call", {"name": tool, "arguments": arguments}

    for text in ("_", "查", "aB", "ab ", "/"):
        most, most_words, most_of_uri = (text * (size // len(text.encode())) for size in (1000, 2000, 8000))
        yield ours("search_dynamic_tools", query=most_words)
        yield ours("call_dynamic_tool", name="g" + most[1:], args={})
        yield ours("get_dynamic_tools", group="evil", tools=[most[:-4] + f"{n:04}" for n in range(200)])
        yield "resources/read", {"uri": "skill://" + most_of_uri}
        yield "tools/describe_batch", {"names": [most[:-4] + f"{n:04}" for n in range(300)]}
        long = text * (2_000_000 // len(text.encode()))
        yield ours("search_dynamic_tools", query=long)
        yield ours("call_dynamic_tool", name="g" + long, args={})
        yield ours("call_dynamic_tool", group="good", name="echo", args={"text": long})
        yield "resources/read", {"uri": long}
    yield ours("call_dynamic_tool", group="good", name="echo", **{f"k{n}": n for n in range(150_000)})
    yield ours("get_dynamic_tools", group="evil", tools=["ab"] * 400_000)


def attack(client):
    """Does with the hostile server what clients and models do with any server. Returns the slowest request."""
    uri = {"uri": "q://unlisted/at/all"}
    requests = [
        ("tools/list", {}),
        ("tools/list", {"lazy": True}),
        ("tools/list", {"lazy": False}),
        *(("tools/call", {"name": "get_dynamic_tools", "arguments": {"group": "evil", **more}})
          for more in ({}, {"detail": "stub"}, {"detail": "signature"}, {"lazy": False}, {"tools": ["t0"]}, {"tools": ["T-0"]})),
        *(("tools/call", {"name": "search_dynamic_tools", "arguments": {"query": query}})
          for query in ("read a file", "w", "waaaaa waaab", "t77")),
        *(("tools/call", {"name": "call_dynamic_tool", "arguments": {"group": "evil", "name": name, "args": {}}})
          for name in ("t0", "T_0", "unknown", "t299999")),
        ("tools/call", {"name": "call_dynamic_tool", "arguments": {"name": "t0", "args": {}}}),
        ("tools/call", {"name": "evil__t0", "arguments": {}}),
        ("tools/describe", {"name": "evil__t0"}),
        ("tools/call", {"name": "get_status", "arguments": {}}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("resources/read", uri),
        ("resources/read", uri),
        ("resources/read", {"uri": "t://b/x199999"}),
        ("resources/read", {"uri": "skill://7/other"}),
        ("resources/read", {"uri": "ui://evil/7"}),
        ("prompts/get", {"name": "evil__p7"}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "z://q"}, "argument": {"name": "a", "value": ""}}),
        *long_requests(),
    ]
    slowest = (0, "")
    for method, params in requests:
        client.current = f"{method} {json.dumps(params)[:60]}"
        took, _ = client.request(method, params)
        slowest = max(slowest, (took, client.current))
    return slowest


def measure(program, name):
    home, remote = pathlib.Path(tempfile.mkdtemp(prefix="hostile-")), None
    try:
        answers = home / "answers"
        answers.mkdir()
        entry, settings = shapes.write(name, answers)
        arguments = [str(HERE / "upstream.py"), str(answers), *entry.pop("args", [])]
        evil = {"command": sys.executable, "args": arguments, **entry}
        if "url" in entry:
            remote = subprocess.Popen([sys.executable, str(HERE / entry["url"])], stdout=subprocess.PIPE, text=True)
            evil = {"url": f"http://127.0.0.1:{remote.stdout.readline().strip()}/mcp"}
        servers = {
            "good": {"command": sys.executable, "args": [str(HERE / "../instructions/upstream.py")], "lazy_startup": "eager"},
            "evil": {"lazy_startup": "eager", **evil},
        }
        config = home / "servers.json"
        config.write_text(json.dumps({"mcpServers": servers, "settings": settings}))
        return measure_with(Client(program, home, config))
    finally:
        if remote:
            remote.kill()
            remote.wait()
        shutil.rmtree(home)


def measure_with(client):
    times, stop, error, slowest = [], threading.Event(), "", (0, "")
    client.request("initialize", CLIENT)
    client.send("notifications/initialized", {})
    client.tool("call_dynamic_tool", group="good", name="echo", args={})
    prober = threading.Thread(target=probe, args=(client, times, stop))
    prober.start()
    try:
        wait_until_known(client)
        begin = time.monotonic()
        while time.monotonic() - begin < ATTACK_SECONDS:
            slowest = max(slowest, attack(client))
    except (TimeoutError, OSError) as failed:
        error = str(failed)
    stop.set()
    prober.join()
    try:
        for more in ({"lazy": False}, {"detail": "signature"}):
            client.start("tools/call", {"name": "get_dynamic_tools", "arguments": {"group": "evil", **more}})
        client.start("tools/call", {"name": "search_dynamic_tools", "arguments": {"query": "w x y z"}})
        client.start("tools/list", {"lazy": False})
    except OSError as failed:
        error = error or str(failed)
    end = client.close()
    times.sort()
    return {
        "calls": len(times),
        "p50": times[len(times) // 2][0],
        "p99": times[len(times) * 99 // 100][0],
        "max": times[-1][0],
        "during": times[-1][1],
        "memory": client.peak_kb / 1024,
        "end": end,
        "slowest": slowest,
        "error": error,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(TARGET / "release/dynamic-mcp"))
    parser.add_argument("--only", default="", help="only the shapes whose name has this text")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)
    print("| shape | calls | p50 ms | p99 ms | max ms | memory MB | end ms | the maximum was during | the slowest request |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    missed = 0
    for name in (name for name in shapes.SHAPES if args.only in name):
        for _ in range(args.runs):
            figures = measure(args.program, name)
            missed += bool(figures["error"]) or any(figures[key] > limit for key, limit in GOAL.items())
            took, request = figures["slowest"]
            cells = [name, figures["calls"], *(f"{figures[key]:.1f}" for key in ("p50", "p99", "max", "memory", "end"))]
            print("|", " | ".join(map(str, cells)), f"| {figures['during']} | {took:.0f} ms {request} {figures['error']} |", flush=True)
    print(f"\n{missed} runs missed the goal" if missed else "\nevery run met the goal")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
