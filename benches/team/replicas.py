#!/usr/bin/env python3
"""Calls through HAProxy while the replicas behind it are restarted and killed.

usage: replicas.py PROGRAM SCRIPTED_UPSTREAM [CALLS]

Three replicas with deploy/haproxy.cfg in front, round robin; 32 clients, half of them of 2026-07-28 and half of 2025-11-25.
Meanwhile each replica is restarted (SIGTERM), and then one is killed (SIGKILL). At the end a client of 2026-07-28 closes its
connection during a call. Prints what failed, as JSON. Exits with 1 if an answer was wrong, if a request failed that was not
in flight on the killed replica, if an error does not say whether the call may be repeated, or if the closed connection does
not cancel the call.
"""
import hashlib, http.client, json, os, re, signal, subprocess, sys, tempfile, threading, time
from pathlib import Path

PROGRAM, UPSTREAM, CALLS = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
CLIENTS = 32
ROOT = Path(__file__).parents[2]
MAY_REPEAT, MAY_NOT = "may be sent again", "may have been carried out"


def free_ports(count):
    import socket
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Replica:
    def __init__(self, directory, port):
        self.directory, self.port = directory, port
        self.start()

    def start(self):
        home = self.directory / f"home{self.port}"
        home.mkdir(exist_ok=True)
        args = [PROGRAM, "--config", self.directory / "servers.json", "serve", "--http", f"127.0.0.1:{self.port}", "--keys", self.directory / "keys", "--tokens", self.directory / "tokens.json", "--allowed-host", "tools.example.com"]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stderr=open(self.directory / f"log{self.port}", "a"), env={"HOME": str(home), "PATH": os.environ["PATH"]})
        while not self.is_ready():
            assert self.process.poll() is None, (self.directory / f"log{self.port}").read_text()
            time.sleep(0.05)

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def end(self, signal_number):
        self.process.send_signal(signal_number)
        self.process.wait()


class Client(threading.Thread):
    """Calls until `stop` is set and it has made its share. Keeps its connection, and makes a new one after an error."""

    def __init__(self, number, port, stop):
        super().__init__(daemon=True)
        self.number, self.port, self.stop = number, port, stop
        self.latencies, self.failures, self.wrong, self.connection = [], [], [], None

    def run(self):
        n = 0
        while n < CALLS / CLIENTS or not self.stop.is_set():
            self.call(f"{self.number}-{n}")
            n += 1

    def message(self, text, group="g", tool="echo", args=None):
        params = {"name": "call_dynamic_tool", "arguments": {"group": group, "name": tool, "args": args or {"text": text}}}
        headers = {"Host": "tools.example.com", "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer ann"}
        if self.number % 2:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}}
            headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "call_dynamic_tool"}
        else:
            headers["MCP-Protocol-Version"] = "2025-11-25"
        return json.dumps({"jsonrpc": "2.0", "id": text, "method": "tools/call", "params": params}), headers

    def call(self, text):
        begin = time.monotonic()
        try:
            self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            self.connection.request("POST", "/mcp", *self.message(text))
            response = self.connection.getresponse()
            body = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.connection = None
            self.failures.append((begin, repr(error)))
            return
        if response.getheader("Connection") == "close":
            self.connection.close()
            self.connection = None
        if response.status != 200:
            self.failures.append((begin, f"{response.status} {body.strip()}"))
            return
        self.latencies.append(time.monotonic() - begin)
        if response.getheader("Mcp-Session-Id"):
            self.wrong.append("a session id")
        answer = json.loads(body)
        if answer.get("id") != text or answer["result"]["content"][0]["text"] != text:
            self.wrong.append(body)


def closed_connection_cancels(port, record):
    client = Client(1, port, None)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/mcp", *client.message("sleeps", "recorded", "sleep", {"ms": 60_000}))
    wait_for(record, "tools/call")
    connection.close()
    return wait_for(record, "notifications/cancelled")


def wait_for(record, text):
    for _ in range(100):
        if text in record.read_text():
            return True
        time.sleep(0.1)
    return False


def haproxy_config(front, ports):
    text = (ROOT / "deploy/haproxy.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{front}")
    for old, port in zip((8081, 8082, 8083), ports):
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{port}")
    # The name belongs to the whole machine.
    return text.replace("abns@dynamic-mcp-inner", f"abns@dynamic-mcp-{front}")


def main(directory):
    entry, record = {"command": UPSTREAM, "all_users": True}, directory / "record"
    servers = {"g": entry, "recorded": entry | {"args": ["--record", str(record)]}}
    (directory / "servers.json").write_text(json.dumps({"mcpServers": servers, "settings": {"lazy_startup": "eager"}}))
    (directory / "keys").write_text("MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\n")
    (directory / "tokens.json").write_text(json.dumps({"tokens": [{"name": "ann", "sha256": hashlib.sha256(b"ann").hexdigest()}]}))
    front, *ports = free_ports(4)
    replicas = [Replica(directory, port) for port in ports]
    (directory / "haproxy.cfg").write_text(haproxy_config(front, ports))
    haproxy = subprocess.Popen(["haproxy", "-db", "-f", directory / "haproxy.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3)
        stop = threading.Event()
        clients = [Client(number, front, stop) for number in range(CLIENTS)]
        begin = time.monotonic()
        [client.start() for client in clients]
        # A short run restarts one.
        for replica in replicas if CALLS >= 10_000 else replicas[1:2]:
            time.sleep(1)
            replica.end(signal.SIGTERM)
            replica.start()
            restarted = time.monotonic()
            # HAProxy looks every second, and no call takes so long.
            time.sleep(2)
        replicas[0].end(signal.SIGKILL)
        gone = time.monotonic()
        time.sleep(3)
        replicas[0].start()
        time.sleep(2)
        stop.set()
        [client.join() for client in clients]
        return report(clients, begin, restarted, gone, closed_connection_cancels(front, record))
    finally:
        haproxy.kill()
        haproxy.wait()
        for replica in replicas:
            replica.end(signal.SIGKILL)


def report(clients, begin, restarted, gone, cancels):
    """`restarted` is when the rolling restart had ended, a while before the kill, and `gone` when nothing of the killed
    replica was left."""
    if not any(client.latencies for client in clients):
        sys.exit(f"no call was answered: {clients[0].failures[:3]}")
    latencies = sorted(latency for client in clients for latency in client.latencies)
    # When each call began that failed, and what the client saw.
    failures = [failure for client in clients for failure in client.failures]
    wrong = [wrong for client in clients for wrong in client.wrong]
    unclear = [text for _, text in failures if MAY_REPEAT not in text and MAY_NOT not in text]
    # Until it is gone, it takes further calls.
    in_flight = [text for at, text in failures if restarted < at < gone]
    result = {
        "calls": len(latencies) + len(failures), "answered": len(latencies), "wrong": len(wrong),
        "failed": len(failures), "of them in flight on the killed replica": len(in_flight),
        "errors that do not say whether the call may be repeated": len(unclear),
        "a closed connection cancels its call": cancels, "calls a second": round(len(latencies) / (time.monotonic() - begin)),
        "p50 ms": round(latencies[len(latencies) // 2] * 1000, 1), "p99 ms": round(latencies[len(latencies) * 99 // 100] * 1000, 1),
        "examples": sorted({text for _, text in failures} | set(wrong))[:5],
    }
    print(json.dumps(result, indent=2))
    return not wrong and not unclear and cancels and len(failures) == len(in_flight)


with tempfile.TemporaryDirectory() as name:
    sys.exit(0 if main(Path(name)) else 1)
