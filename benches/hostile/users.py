#!/usr/bin/env python3
"""Measures what one user of `serve --http` costs the calls of another user.

    cargo build --release && benches/hostile/users.py [--program PATH] [--only TEXT] [--runs N] [--lists]

Each shape is what one user (two, where its name says so) does while another one calls the server `good` all the time, and
with the shapes of programs and searches does the same in between. With `--lists`, the shapes of `shapes.py` are also used
by one user, as `run.py` does on stdio. Printed are the times of the other user's calls, and the peak of the anonymous
memory. Linux only. The goals are those of `run.py`, but for the end.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import run
import shapes

USERS = ["ann", "bob", "carol"]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
ENDLESS = "reduce range(1e15) as $n (0; . + $n)"
# How long a shape lasts, and how many connections send it.
SECONDS = 10
GOAL = {key: limit for key, limit in run.GOAL.items() if key != "end"}


class Served:
    def __init__(self, program, home, config):
        tokens = [{"name": user, "sha256": hashlib.sha256(user.encode()).hexdigest()} for user in USERS]
        (home / "tokens.json").write_text(json.dumps({"tokens": tokens}))
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(home)}
        command = [program, "--config", str(config), "serve", "--http", "127.0.0.1:0", "--tokens", str(home / "tokens.json")]
        self.log = open(home / "log", "w+")
        self.process = subprocess.Popen(command, env=env, stderr=self.log, stdout=subprocess.DEVNULL)
        self.peak_kb, self.is_open, self.current = 0, True, "the start"
        self.port = self.wait_for_port()
        threading.Thread(target=run.Client.watch, args=(self,), daemon=True).start()

    def wait_for_port(self):
        deadline = time.monotonic() + run.TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            found = re.search(r"127\.0\.0\.1:([1-9]\d*)", pathlib.Path(self.log.name).read_text())
            if found:
                return int(found[1])
            time.sleep(0.02)
        raise TimeoutError(pathlib.Path(self.log.name).read_text())

    def close(self):
        self.is_open = False
        self.process.kill()
        self.process.wait()


class User:
    """A user with one connection, on which one request follows another."""

    def __init__(self, served, name):
        self.served, self.name, self.current = served, name, ""
        self.stream = self.connect()

    def connect(self, receive_bytes=None):
        stream = socket.socket()
        if receive_bytes:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        stream.settimeout(run.TIMEOUT_SECONDS)
        stream.connect(("127.0.0.1", self.served.port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream

    def text(self, method, params):
        headers = {
            "Host": "localhost", "Authorization": f"Bearer {self.name}", "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if method == "subscriptions/listen":
            params = {**params, "_meta": META}
            headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def begin(self, method, params, receive_bytes=None):
        """Sends a request on a connection of its own, and reads nothing."""
        stream = self.connect(receive_bytes)
        stream.sendall(self.text(method, params))
        return stream

    def request(self, method, params):
        begin = time.perf_counter()
        self.stream.sendall(self.text(method, params))
        body = read_response(self.stream)
        return (time.perf_counter() - begin) * 1e3, body

    def tool(self, tool, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})


def read_response(stream):
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    if length:
        parts, missing = [body], int(length[1]) - len(body)
        while missing > 0:
            parts.append(received(stream))
            missing -= len(parts[-1])
        return b"".join(parts)
    while not body.endswith(b"0\r\n\r\n"):
        body += received(stream)
    return body


def received(stream):
    chunk = stream.recv(1 << 20)
    if not chunk:
        raise OSError("the connection was closed")
    return chunk


def call(tool, server="evil", select=None, **args):
    arguments = {"group": server, "name": tool, "args": args, **({"select": select} if select else {})}
    return "tools/call", {"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": 1}}


def search():
    return "tools/call", {"name": "search_dynamic_tools", "arguments": {"query": "read a file " * 150}}


def listens(length):
    filter = {"resourceSubscriptions": [f"mem://{n:0{length}}" for n in range(1000)]}
    return "subscriptions/listen", {"group": "evil", "notifications": filter}


# The users, how many requests of them are open at a time, the request, and what the other user does beside his calls.
SHAPES = {
    "nothing": ((), 0, call("json"), None),
    "100 subscriptions of 1,000 URIs of 4 kB": (("ann",), 100, listens(4000), None),
    "100 subscriptions of 1,000 URIs of 1 kB": (("ann",), 100, listens(1000), None),
    "450 streams that are not read": (("ann",), 450, call("flood"), None),
    "450 answers of 1 MB that are not read": (("ann",), 450, call("large"), None),
    "60 endless programs": (("ann",), 60, call("json", select=ENDLESS), call("json", "good", select=".a[0]")),
    "60 searches": (("ann",), 60, search(), search()),
    "two users with 512 slow calls each": (("ann", "carol"), 512, call("slow"), call("json")),
}


def attack(user, count, request, stop):
    """Keeps so many requests of a user open, each again once it is answered or its connection has ended."""
    method, params = request
    reads = params.get("arguments", {}).get("name") == "search_dynamic_tools" or "select" in params.get("arguments", {})

    def repeat():
        while not stop.is_set():
            try:
                stream = user.begin(method, params, None if reads else 4096)
                read_response(stream) if reads else stop.wait()
            except OSError:
                stop.wait(0.1)

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()


def probe(user, other, times, stop, errors):
    while not stop.is_set():
        try:
            took, line = user.tool("call_dynamic_tool", group="good", name="echo", args={"text": "x"})
            assert b'"ok"' in line, line[:300]
            times.append((took, user.served.current))
            if other:
                took, line = user.request(*other)
                assert b'"isError":true' not in line and b'"error"' not in line, line[:300]
                times.append((took, json.dumps(other)[:40]))
        except (OSError, AssertionError) as error:
            errors.append(str(error)[:200] or repr(error))
            return
        time.sleep(run.PAUSE_SECONDS)


def figures(served, times, errors):
    times.sort()
    at = lambda part: times[min(int(len(times) * part), len(times) - 1)][0] if times else float("inf")
    return {
        "calls": len(times), "p50": at(0.5), "p99": at(0.99), "max": at(1), "memory": served.peak_kb / 1024,
        "during": times[-1][1] if times else "", "error": "; ".join(errors),
    }


def with_program(program, name, list_shape, act):
    home = pathlib.Path(tempfile.mkdtemp(prefix="hostile-users-"))
    try:
        answers = home / "answers"
        answers.mkdir()
        entry, settings = shapes.write(list_shape, answers)
        if list_shape == SMALL:
            tools = map(shapes.tool, ("echo", "json", "large", "slow", "flood"))
            (answers / "tools.0.json").write_text(shapes.page("tools", tools))
        python, all_users = sys.executable, {"lazy_startup": "eager", "all_users": True}
        evil = [str(run.HERE / "upstream.py"), str(answers), *entry.pop("args", [])]
        good = [str(run.HERE / "upstream.py"), str(answers)] if list_shape == SMALL else [str(run.HERE / "../instructions/upstream.py")]
        servers = {
            "good": {"command": python, "args": good, **all_users},
            "evil": {"command": python, "args": evil, **all_users, **entry},
        }
        config = home / "servers.json"
        config.write_text(json.dumps({"mcpServers": servers, "settings": settings}))
        served = Served(program, home, config)
        try:
            return act(served)
        finally:
            served.close()
    finally:
        shutil.rmtree(home)


SMALL = "an honest list"


def measure(served, act, other):
    """Runs `act` while the other user asks."""
    times, errors, stop = [], [], threading.Event()
    bob = User(served, "bob")
    bob.tool("call_dynamic_tool", group="good", name="echo", args={"text": "x"})
    # What is made once, such as the index of the search, is made before the other user's times are taken.
    while other and b"not known yet" in bob.request(*other)[1]:
        time.sleep(run.PAUSE_SECONDS)
    prober = threading.Thread(target=probe, args=(bob, other, times, stop, errors))
    prober.start()
    try:
        act(stop)
    except (TimeoutError, OSError) as error:
        errors.append(str(error))
    stop.set()
    prober.join()
    return figures(served, times, errors)


def measure_shape(served, name):
    users, count, request, other = SHAPES[name]

    def act(stop):
        for user in users:
            attack(User(served, user), count, request, stop)
        stop.wait(SECONDS)

    return measure(served, act, other)


def measure_list(served):
    ann = User(served, "ann")

    def act(_):
        begin = time.monotonic()
        while time.monotonic() - begin < run.ATTACK_SECONDS:
            run.attack(ann)
            served.current = ann.current

    return measure(served, act, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(run.TARGET / "release/dynamic-mcp"))
    parser.add_argument("--only", default="", help="only the shapes whose name has this text")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--lists", action="store_true", help="also the shapes of shapes.py")
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    big = "10,000 tools of 1.5 kB"
    all_shapes = [(name, big if "search" in name else SMALL, lambda served, name=name: measure_shape(served, name)) for name in SHAPES]
    if args.lists:
        all_shapes += [(f"list: {name}", name, measure_list) for name in shapes.SHAPES]
    print("| shape | calls | p50 ms | p99 ms | max ms | memory MB | the maximum was during |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    missed = 0
    for name, list_shape, act in all_shapes:
        if args.only not in name:
            continue
        for _ in range(args.runs):
            result = with_program(args.program, name, list_shape, act)
            missed += bool(result["error"]) or any(result[key] > limit for key, limit in GOAL.items())
            cells = [name, result["calls"], *(f"{result[key]:.1f}" for key in ("p50", "p99", "max", "memory"))]
            print("|", " | ".join(map(str, cells)), f"| {result['during']} {result['error']} |", flush=True)
    print(f"\n{missed} runs missed the goal" if missed else "\nevery run met the goal")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
