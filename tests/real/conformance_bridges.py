"""HTTP in front of a stdio server, for the official conformance suite, which supports only HTTP.

The prefix is removed from names in lists and added to names in requests, because a proxy lists `group__name`. The
bridges implement the rules of HTTP (hosts, headers, sessions, status codes), which are not rules of the server.
"""
import base64, binascii, itertools, json, queue, re, select, socket, subprocess, threading, uuid
from http.server import BaseHTTPRequestHandler


def with_prefix(message, prefix):
    """The bytes of a request with the prefix before its name. `None` if it has no name."""
    params = message.get("params") or {}
    if message.get("method") in ("tools/call", "prompts/get"):
        params["name"] = prefix + params["name"]
    elif message.get("method") == "completion/complete" and params["ref"].get("type") == "ref/prompt":
        params["ref"]["name"] = prefix + params["ref"]["name"]
    else:
        return None
    return json.dumps(message).encode()


class Child:
    """A process of the server. `on_message` is called with each of its messages, and with `None` at its end."""

    def __init__(self, command, on_message):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.lock, self.on_message = threading.Lock(), on_message
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, body):
        with self.lock:
            self.process.stdin.write(body.replace(b"\n", b" ") + b"\n")

    def read(self):
        for line in self.process.stdout:
            self.on_message(line.rstrip(b"\n"))
        self.on_message(None)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bridge(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    program, prefix = [], ""

    def log_message(self, *_):
        pass

    def send_json(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_json_error(self, status, code, message, id=None):
        error = {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "error": {"code": code, "message": message}}
        self.send_json(status, json.dumps(error).encode())

    def begin_stream(self, **headers):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def send_event(self, raw):
        self.wfile.write(b"event: message\ndata: " + raw + b"\n\n")
        self.wfile.flush()

    def read_message(self):
        """The posted message as bytes and as JSON. `None` if it was refused."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.check_local():
            return None
        try:
            return body, json.loads(body)
        except ValueError:
            return self.send_json_error(400, -32700, "Parse error")

    def check_local(self):
        """Whether the request is for this machine. Refuses others."""
        name = lambda value: value.split("://", 1)[-1].rsplit(":", 1)[0]
        origin = self.headers.get("Origin")
        is_local = all(name(v) in ("localhost", "127.0.0.1", "[::1]") for v in (self.headers.get("Host") or "", origin or "localhost:1"))
        if not is_local:
            self.send_json_error(403, -32000, "forbidden host")
        return is_local

    def is_closed(self):
        """Whether the suite has closed the stream, which cancels the request in revision 2026-07-28."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True


class Session:
    def __init__(self, bridge):
        self.id, self.prefix = uuid.uuid4().hex, bridge.prefix
        # Queues for messages: of open requests by id, by progress token, and for all other messages.
        self.pending, self.tokens, self.other = {}, {}, queue.Queue()
        self.child = Child(bridge.program, self.on_message)

    def on_message(self, raw):
        if raw is None:
            for messages in [*self.pending.values(), self.other]:
                messages.put((None, True))
            return
        message, raw = json.loads(raw), raw.replace(b'"name":"' + self.prefix.encode(), b'"name":"')
        if "method" not in message and message.get("id") is not None:
            messages = self.pending.pop(json.dumps(message["id"]), None)
            if messages:
                messages.put((raw, True))
            return
        token = (message.get("params") or {}).get("progressToken")
        messages = self.tokens.get(json.dumps(token)) if token is not None else None
        if messages is None and self.pending:
            messages = list(self.pending.values())[-1]
        (messages or self.other).put((raw, False))


class SessionBridge(Bridge):
    """The revisions with a handshake: one process for each HTTP session. Messages pass byte for byte."""

    sessions = {}

    @classmethod
    def close(cls):
        for session in list(cls.sessions.values()):
            session.child.close()

    def find_session(self):
        session = self.sessions.get(self.headers.get("Mcp-Session-Id"))
        if not session:
            missing = not self.headers.get("Mcp-Session-Id")
            self.send_json_error(400 if missing else 404, -32001, "no such session")
        return session

    def stream(self, messages, session):
        self.begin_stream(Mcp_Session_Id=session)
        try:
            while True:
                raw, last = messages.get()
                if raw is not None:
                    self.send_event(raw)
                if last:
                    break
        except OSError:
            pass

    def do_POST(self):
        posted = self.read_message()
        if not posted:
            return
        body, message = posted
        if message.get("method") == "initialize" and not self.headers.get("Mcp-Session-Id"):
            session = Session(self)
            self.sessions[session.id] = session
        else:
            session = self.find_session()
        if not session:
            return
        token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
        body = with_prefix(message, self.prefix) or body
        if "method" in message and "id" in message:
            messages = queue.Queue()
            session.pending[json.dumps(message["id"])] = messages
            if token is not None:
                session.tokens[json.dumps(token)] = messages
            session.child.send(body)
            self.stream(messages, session.id)
        else:
            session.child.send(body)
            self.send_json(202)

    def do_GET(self):
        session = self.check_local() and self.find_session()
        if session:
            self.stream(session.other, session.id)

    def do_DELETE(self):
        session = self.check_local() and self.find_session()
        if session:
            self.sessions.pop(session.id, None)
            session.child.close()
            self.send_json(200)


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
# The param that the header `Mcp-Name` repeats.
NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
STATUS_BY_CODE = {-32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}


class Exchange:
    """An open request: the id that the suite gave it, and the messages for it."""

    def __init__(self, message):
        self.id, self.method, self.messages = message["id"], message["method"], queue.Queue()
        self.token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")


class SharedProcess:
    """The process for all requests. The suite repeats ids, so each request gets a new id."""

    def __init__(self, bridge):
        self.prefix, self.ids, self.open, self.headers = bridge.prefix, itertools.count(1), {}, {}
        self.child = Child(bridge.program, self.on_message)
        # The first request selects the era of a process. Over HTTP the headers of each request select it.
        self.send({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": META}})[1].messages.get()

    def send(self, message):
        id, exchange = next(self.ids), Exchange(message)
        self.open[id] = exchange
        message = {**message, "id": id}
        self.child.send(with_prefix(message, self.prefix) or json.dumps(message).encode())
        return id, exchange

    def cancel(self, id):
        if self.open.pop(id, None):
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            self.child.send(json.dumps(cancelled).encode())

    def on_message(self, raw):
        if raw is None:
            for exchange in list(self.open.values()):
                exchange.messages.put(None)
            return
        message = json.loads(raw)
        exchange = self.open.pop(message.get("id"), None) if "method" not in message else self.exchange_of(message)
        if exchange:
            if "method" not in message:
                message["id"] = exchange.id
                self.remove_prefix(message.get("result") or {})
            meta = (message.get("params") or message.get("result") or {}).get("_meta") or {}
            if SUBSCRIPTION in meta:
                meta[SUBSCRIPTION] = exchange.id
            exchange.messages.put(message)

    def exchange_of(self, notification):
        """The request that a notification belongs to and whose stream it is sent on."""
        # A copy, because other threads add requests.
        params, open = notification.get("params") or {}, list(self.open.items())
        subscription = (params.get("_meta") or {}).get(SUBSCRIPTION)
        if subscription is not None:
            return next((exchange for id, exchange in open if str(id) == str(subscription)), None)
        if "progressToken" in params:
            return next((exchange for _, exchange in open if exchange.token == params["progressToken"]), None)
        others = [exchange for _, exchange in open if exchange.method != "subscriptions/listen"]
        return others[-1] if others else None

    def remove_prefix(self, result):
        for entry in [*result.get("tools", []), *result.get("prompts", [])]:
            entry["name"] = entry["name"].removeprefix(self.prefix)
        for tool in result.get("tools", []):
            properties = tool["inputSchema"].get("properties", {})
            self.headers[tool["name"]] = {name: schema["x-mcp-header"] for name, schema in properties.items() if "x-mcp-header" in schema}


class StatelessBridge(Bridge):
    """Revision 2026-07-28: each POST is a request whose response is a stream. One process serves all requests."""

    shared, starting = None, threading.Lock()

    @classmethod
    def close(cls):
        if cls.shared:
            cls.shared.child.close()

    def header(self, name):
        """The decoded value of a header. Raises `ValueError` if it cannot be decoded."""
        value = self.headers.get(name)
        encoded = re.fullmatch(r"=\?base64\?(.*)\?=", (value or "").strip())
        return base64.b64decode(encoded[1], validate=True).decode() if encoded else value and value.strip()

    def mismatched_header(self, message):
        """The name of a header that differs from the body."""
        params, method = message.get("params") or {}, message["method"]
        version = (params.get("_meta") or {}).get("io.modelcontextprotocol/protocolVersion")
        header = self.headers.get("MCP-Protocol-Version")
        if header is None or version is not None and header != version:
            return "MCP-Protocol-Version"
        if self.header("Mcp-Method") != method:
            return "Mcp-Method"
        if method in NAME_PARAMS and self.header("Mcp-Name") != params.get(NAME_PARAMS[method]):
            return "Mcp-Name"
        arguments = params.get("arguments") or {}
        mirrored = self.shared.headers.get(params["name"], {}) if method == "tools/call" else {}
        for argument, name in mirrored.items():
            if self.header(f"Mcp-Param-{name}") != arguments.get(argument):
                return f"Mcp-Param-{name}"

    def do_POST(self):
        posted = self.read_message()
        if not posted:
            return
        body, message = posted
        with self.starting:
            StatelessBridge.shared = self.shared or SharedProcess(self)
        if "id" not in message:
            self.shared.child.send(body)
            return self.send_json(202)
        try:
            mismatch = self.mismatched_header(message)
        except (ValueError, binascii.Error) as error:
            mismatch = str(error)
        if mismatch:
            return self.send_json_error(400, -32020, f"Header mismatch: {mismatch}", message["id"])
        # On stdio this method selects the era of the process. Over HTTP a header does, and the revision lacks the method.
        if message["method"] == "initialize":
            return self.send_json_error(404, -32601, "Method not found: initialize", message["id"])
        self.relay(*self.shared.send(message))

    def relay(self, id, exchange):
        is_streaming = False
        while True:
            try:
                message = exchange.messages.get(timeout=0.02)
            except queue.Empty:
                if self.is_closed():
                    return self.shared.cancel(id)
                continue
            if message is None:
                return self.send_json_error(502, -32603, "The server has ended", exchange.id)
            raw = json.dumps(message).encode()
            if "error" in message and not is_streaming:
                return self.send_json(STATUS_BY_CODE.get(message["error"]["code"], 200), raw)
            try:
                if not is_streaming:
                    self.begin_stream(X_Accel_Buffering="no")
                is_streaming = True
                self.send_event(raw)
            except OSError:
                return self.shared.cancel(id)
            if "method" not in message:
                return
