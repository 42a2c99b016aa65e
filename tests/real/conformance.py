#!/usr/bin/env python3
"""Runs the official conformance suite's server scenarios against a stdio server.

usage: conformance.py NODE SUITE PREFIX REVISION CMD ARG...

The suite speaks HTTP only, so a bridge stands before the server: one child process an HTTP session, messages passed
on byte for byte. PREFIX is taken off names in lists and put on in requests, because a proxy lists `group__name`.
The last line of the output is a JSON object: for each scenario, how many checks passed and failed.
"""
import json, queue, re, subprocess, sys, tempfile, threading, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NODE, SUITE, PREFIX, REVISION, CMD = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]
SESSIONS = {}


def named(message):
    """A request of the suite with the names that the server knows."""
    params = message.get("params") or {}
    if message.get("method") in ("tools/call", "prompts/get"):
        params["name"] = PREFIX + params["name"]
    elif message.get("method") == "completion/complete" and params["ref"].get("type") == "ref/prompt":
        params["ref"]["name"] = PREFIX + params["ref"]["name"]
    else:
        return None
    return json.dumps(message).encode()


class Session:
    def __init__(self):
        self.id = uuid.uuid4().hex
        self.child = subprocess.Popen(CMD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.lock = threading.Lock()
        self.pending, self.tokens, self.unasked = {}, {}, queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, body):
        with self.lock:
            self.child.stdin.write(body.replace(b"\n", b" ") + b"\n")

    def read(self):
        for line in self.child.stdout:
            message, raw = json.loads(line), line.rstrip(b"\n").replace(b'"name":"' + PREFIX.encode(), b'"name":"')
            if "method" not in message and message.get("id") is not None:
                to = self.pending.pop(json.dumps(message["id"]), None)
                if to:
                    to.put((raw, True))
                continue
            token = (message.get("params") or {}).get("progressToken")
            to = self.tokens.get(json.dumps(token)) if token is not None else None
            if to is None and self.pending:
                to = list(self.pending.values())[-1]
            (to or self.unasked).put((raw, False))
        for to in [*self.pending.values(), self.unasked]:
            to.put((None, True))

    def close(self):
        self.child.stdin.close()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Bridge(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def plain(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def local(self):
        name = lambda value: value.split("://", 1)[-1].rsplit(":", 1)[0]
        origin = self.headers.get("Origin")
        fine = all(name(v) in ("localhost", "127.0.0.1", "[::1]") for v in (self.headers.get("Host") or "", origin or "localhost:1"))
        if not fine:
            self.plain(403, b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"forbidden host"}}')
        return fine

    def session(self):
        known = SESSIONS.get(self.headers.get("Mcp-Session-Id"))
        if not known:
            missing = not self.headers.get("Mcp-Session-Id")
            self.plain(400 if missing else 404, b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"no such session"}}')
        return known

    def stream(self, source, session):
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("Mcp-Session-Id", session), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                raw, last = source.get()
                if raw is None:
                    break
                self.wfile.write(b"event: message\ndata: " + raw + b"\n\n")
                self.wfile.flush()
                if last:
                    break
        except OSError:
            pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.local():
            return
        try:
            message = json.loads(body)
        except ValueError:
            return self.plain(400, b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}')
        if message.get("method") == "initialize" and not self.headers.get("Mcp-Session-Id"):
            session = Session()
            SESSIONS[session.id] = session
        else:
            session = self.session()
        if not session:
            return
        token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
        body = named(message) or body
        if "method" in message and "id" in message:
            answers = queue.Queue()
            session.pending[json.dumps(message["id"])] = answers
            if token is not None:
                session.tokens[json.dumps(token)] = answers
            session.send(body)
            self.stream(answers, session.id)
        else:
            session.send(body)
            self.plain(202)

    def do_GET(self):
        session = self.local() and self.session()
        if session:
            self.stream(session.unasked, session.id)

    def do_DELETE(self):
        session = self.local() and self.session()
        if session:
            SESSIONS.pop(session.id, None)
            session.close()
            self.plain(200)


ThreadingHTTPServer.daemon_threads = True
server = ThreadingHTTPServer(("127.0.0.1", 0), Bridge)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as out:
    url = f"http://localhost:{server.server_address[1]}/mcp"
    suite = [NODE, SUITE, "server", "--url", url, "--requirements", REVISION, "-o", out]
    output = subprocess.run(suite, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
for session in list(SESSIONS.values()):
    session.close()
print(output)
scenarios = re.findall(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed", output, re.M)
print(json.dumps({name: [int(passed), int(failed)] for name, passed, failed in scenarios}))
