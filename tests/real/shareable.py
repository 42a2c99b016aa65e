#!/usr/bin/env python3
"""Finds out which published servers can be shared among clients without being asked, and writes the list that
dynamic-mcp uses: crates/sharing/src/tested_packages.json.

    tests/real/shareable.py           # runs every candidate and prints what it found
    tests/real/shareable.py --update  # and writes the list

It installs the candidates in pinned versions into target/shareable (python3 and npm are needed). A server is listed if

- it asked its client nothing, although roots, sampling and elicitation were offered to it;
- it sent no list_changed;
- each of its tools was called, and each call had the same result in every order, repeated, and after any other call,
  in several processes: so it keeps no state between calls;
- many calls at the same time had the results that they have one by one, and a slow call (where there is one) held up no
  other: so it takes concurrent calls.

The candidates at the end must fail. They show that the test can tell.
"""

import http.server
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "crates/sharing/src/tested_packages.json"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "shareable"
TIMEOUT_S = 60
SEED = 14
CONCURRENT_CALLS = 60


class WebServer:
    """A web server on this machine, for servers that fetch pages. /slow answers after 3 s."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/slow":
                    time.sleep(3)
                found = self.path != "/robots.txt"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                if found:
                    self.wfile.write(f"<html><body><h1>Page</h1><p>The page {self.path}.</p></body></html>".encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def candidates(web, files):
    """Each: launcher, name, version, arguments, calls, and a slow call if the server has any. A call is a tool, its
    arguments, and whether the result contains the current time."""
    return [
        ("uvx", "mcp-server-time", "2026.10.19", [], [
            ("get_current_time", {"timezone": "Europe/Berlin"}, True),
            ("get_current_time", {"timezone": "Asia/Tokyo"}, True),
            ("convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Kolkata"}, True),
            ("convert_time", {"source_timezone": "Nowhere", "time": "12:30", "target_timezone": "UTC"}, False),
        ], None),
        ("uvx", "mcp-server-calculator", "0.2.1", [], [
            ("calculate", {"expression": f"{n} * ({n} + 3) / 7"}, False) for n in range(1, 5)
        ] + [("calculate", {"expression": "1 / 0"}, False)], None),
        ("uvx", "mcp-server-fetch", "2026.10.24", [], [
            ("fetch", {"url": f"{web}/{name}"}, False) for name in ("one", "two", "three")
        ] + [("fetch", {"url": f"{web}/one", "raw": True}, False)], ("fetch", {"url": f"{web}/slow"})),
        ("npx", "time-mcp", "1.0.6", [], [
            ("current_time", {"format": "YYYY-MM-DD", "timezone": "Asia/Tokyo"}, True),
            ("relative_time", {"time": "2020-01-01 00:00:00"}, True),
            ("days_in_month", {"date": "2024-02-11"}, False),
            ("get_timestamp", {"time": "2024-02-11 10:00:00"}, False),
            ("convert_time", {"sourceTimezone": "Asia/Tokyo", "targetTimezone": "UTC", "time": "2024-02-11 10:00:00"},
             False),
            ("get_week_year", {"date": "2024-02-11"}, False),
        ], None),
        # These must fail.
        ("npx", "@modelcontextprotocol/server-everything", "2026.8.31", [], [("echo", {"message": "x"}, False)], None),
        ("npx", "@modelcontextprotocol/server-filesystem", "2026.8.31", [files], [
            ("list_allowed_directories", {}, False)], None),
        ("npx", "@modelcontextprotocol/server-sequential-thinking", "2026.8.31", [], [
            ("sequentialthinking",
             {"thought": str(n), "nextThoughtNeeded": False, "thoughtNumber": n, "totalThoughts": 3}, False)
            for n in range(1, 4)], None),
    ]


MUST_FAIL = {"@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem",
             "@modelcontextprotocol/server-sequential-thinking"}


def install(launcher, name, version):
    """Installs a package and returns its command."""
    directory = TARGET / f"{name.replace('/', '_')}-{version}"
    if launcher == "uvx":
        if not (directory / "installed").exists():
            subprocess.run([sys.executable, "-m", "venv", directory], check=True)
            subprocess.run([directory / "bin/pip", "install", "-q", f"{name}=={version}"], check=True)
            (directory / "installed").touch()
        return [str(directory / "bin" / name)]
    if not (directory / "installed").exists():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--prefix", directory, "--no-audit", "--no-fund", "--loglevel=error",
                        f"{name}@{version}"], check=True)
        (directory / "installed").touch()
    package = directory / "node_modules" / name
    binary = json.loads((package / "package.json").read_text())["bin"]
    file = binary if isinstance(binary, str) else next(iter(binary.values()))
    return ["node", str(package / file)]


class Server:
    """A running server and what it sent."""

    def __init__(self, command, workdir):
        env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env, cwd=workdir)
        self.answers, self.asked, self.notified = {}, [], []
        self.changed, self.last_id = threading.Condition(), 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                if "method" not in message:
                    self.answers[message["id"]] = (message.get("result") or message.get("error"), time.monotonic())
                elif "id" in message:
                    self.asked.append(message["method"])
                    result = {"roots": []} if message["method"] == "roots/list" else {}
                    self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})
                else:
                    self.notified.append(message["method"])
                self.changed.notify_all()

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method, params):
        self.last_id += 1
        self.write({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.last_id

    def answer(self, request):
        with self.changed:
            if not self.changed.wait_for(lambda: request in self.answers, TIMEOUT_S):
                raise Failed("no answer")
            return self.answers[request]

    def request(self, method, params):
        return self.answer(self.send(method, params))[0]

    def initialize(self):
        self.request("initialize", {
            "protocolVersion": "2025-11-25", "clientInfo": {"name": "shareable", "version": "1"},
            "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}})
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def send_call(self, call):
        return self.send("tools/call", {"name": call[0], "arguments": call[1]})

    def check_silence(self):
        asked = [method for method in self.asked if method != "ping"]
        if asked:
            raise Failed(f"it asks its client: {', '.join(sorted(set(asked)))}")
        changes = [method for method in self.notified if method.endswith("list_changed")]
        if changes:
            raise Failed(f"it sends {changes[0]}")

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Failed(Exception):
    pass


def normal(call, result):
    """The result as text. Of a result that has the current time, only the words count."""
    text = json.dumps(result, sort_keys=True)
    return re.sub(r"[0-9]+", "0", text) if call[2] else text


def check(command, calls, slow, workdir):
    """Raises Failed with the reason why a server cannot be shared. Returns the names of its tools."""
    shuffle = random.Random(SEED)
    known = {}

    def compare(index, result, when):
        text = normal(calls[index], result)
        if known.setdefault(index, text) != text:
            raise Failed(f"{calls[index][0]} has another result {when}: {text[:200]} instead of {known[index][:200]}")

    tools = None
    for turn in range(4):
        server = Server(command, workdir).initialize()
        tools = sorted(tool["name"] for tool in server.request("tools/list", {})["tools"])
        if missing := set(tools) - {call[0] for call in calls}:
            time.sleep(1)
            server.check_silence()
            raise Failed(f"not every tool was called: {', '.join(sorted(missing))}")
        order = list(range(len(calls))) * 2
        if turn > 0:
            shuffle.shuffle(order)
        for index in order:
            compare(index, server.answer(server.send_call(calls[index]))[0], "in another order")
        requests = [(index, server.send_call(calls[index]))
                    for index in (shuffle.randrange(len(calls)) for _ in range(CONCURRENT_CALLS))]
        for index, request in requests:
            compare(index, server.answer(request)[0], "beside other calls")
        if slow:
            waiting = server.send("tools/call", {"name": slow[0], "arguments": slow[1]})
            other = server.send_call(calls[0])
            if server.answer(other)[1] > server.answer(waiting)[1]:
                raise Failed("a slow call holds up others")
        time.sleep(0.5)
        server.check_silence()
        server.close()
    return tools


def main():
    listed, wrong = [], False
    with tempfile.TemporaryDirectory() as files:
        for launcher, name, version, args, calls, slow in candidates(WebServer().base, files):
            command = install(launcher, name, version) + args
            with tempfile.TemporaryDirectory() as workdir:
                try:
                    tools = check(command, calls, slow, workdir)
                    outcome = "shareable"
                    listed.append({"launcher": launcher, "name": name, "evidence": {
                        "version": version, "tools": tools, "processes": 4,
                        "calls_in_turn": 4 * 2 * len(calls), "calls_at_once": 4 * CONCURRENT_CALLS}})
                except Failed as failed:
                    outcome = f"private: {failed}"
            wrong |= (outcome == "shareable") == (name in MUST_FAIL)
            print(f"{launcher} {name}@{version}: {outcome}", flush=True)
    text = "[\n" + ",\n".join("  " + json.dumps(package) for package in listed) + "\n]\n"
    if "--update" in sys.argv:
        LIST.write_text(text)
    elif LIST.read_text() != text:
        print(f"{LIST} is out of date: run this with --update")
        wrong = True
    sys.exit(wrong)


if __name__ == "__main__":
    main()
