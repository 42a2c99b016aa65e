"""HTTP before a stdio server, for the official conformance suite, which speaks HTTP only.

`PREFIX` is taken off names in lists and put on in requests, because a proxy lists `group__name`. What is a rule of HTTP
and not of the server behind it (hosts, headers, sessions, status codes) is kept here.
"""
import base64, binascii, itertools, json, queue, re, select, socket, subprocess, threading, uuid
from http.server import BaseHTTPRequestHandler


def named(message, prefix):
    """A request of the suite with the names that the server knows; nothing if it has none."""
    params = message.get("params") or {}
    if message.get("method") in ("tools/call", "prompts/get"):
        params["name"] = prefix + params["name"]
    elif message.get("method") == "completion/complete" and params["ref"].get("type") == "ref/prompt":
        params["ref"]["name"] = prefix + params["ref"]["name"]
    else:
        return None
    return json.dumps(message).encode()


class Child:
    """A process of the server. `told` is called with each of its messages, and with nothing at its end."""

    def __init__(self, command, told):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.lock, self.told = threading.Lock(), told
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, body):
        with self.lock:
            self.process.stdin.write(body.replace(b"\n", b" ") + b"\n")

    def read(self):
        for line in self.process.stdout:
            self.told(line.rstrip(b"\n"))
        self.told(None)

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

    def plain(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, message, id=None):
        error = {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "error": {"code": code, "message": message}}
        self.plain(status, json.dumps(error).encode())

    def begin_stream(self, **headers):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, raw):
        self.wfile.write(b"event: message\ndata: " + raw + b"\n\n")
        self.wfile.flush()

    def message(self):
        """What was posted, as bytes and as JSON; nothing once it has been refused."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.local():
            return None
        try:
            return body, json.loads(body)
        except ValueError:
            return self.refuse(400, -32700, "Parse error")

    def local(self):
        name = lambda value: value.split("://", 1)[-1].rsplit(":", 1)[0]
        origin = self.headers.get("Origin")
        fine = all(name(v) in ("localhost", "127.0.0.1", "[::1]") for v in (self.headers.get("Host") or "", origin or "localhost:1"))
        if not fine:
            self.refuse(403, -32000, "forbidden host")
        return fine


class Session:
    def __init__(self, bridge):
        self.id, self.prefix = uuid.uuid4().hex, bridge.prefix
        self.pending, self.tokens, self.unasked = {}, {}, queue.Queue()
        self.child = Child(bridge.program, self.told)

    def told(self, raw):
        if raw is None:
            for to in [*self.pending.values(), self.unasked]:
                to.put((None, True))
            return
        message, raw = json.loads(raw), raw.replace(b'"name":"' + self.prefix.encode(), b'"name":"')
        if "method" not in message and message.get("id") is not None:
            to = self.pending.pop(json.dumps(message["id"]), None)
            if to:
                to.put((raw, True))
            return
        token = (message.get("params") or {}).get("progressToken")
        to = self.tokens.get(json.dumps(token)) if token is not None else None
        if to is None and self.pending:
            to = list(self.pending.values())[-1]
        (to or self.unasked).put((raw, False))


class Sessions(Bridge):
    """The revisions with a handshake: a process for each HTTP session, messages passed on byte for byte."""

    known = {}

    @classmethod
    def close(cls):
        for session in list(cls.known.values()):
            session.child.close()

    def session(self):
        known = self.known.get(self.headers.get("Mcp-Session-Id"))
        if not known:
            missing = not self.headers.get("Mcp-Session-Id")
            self.refuse(400 if missing else 404, -32001, "no such session")
        return known

    def stream(self, source, session):
        self.begin_stream(Mcp_Session_Id=session)
        try:
            while True:
                raw, last = source.get()
                if raw is not None:
                    self.event(raw)
                if last:
                    break
        except OSError:
            pass

    def do_POST(self):
        posted = self.message()
        if not posted:
            return
        body, message = posted
        if message.get("method") == "initialize" and not self.headers.get("Mcp-Session-Id"):
            session = Session(self)
            self.known[session.id] = session
        else:
            session = self.session()
        if not session:
            return
        token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
        body = named(message, self.prefix) or body
        if "method" in message and "id" in message:
            answers = queue.Queue()
            session.pending[json.dumps(message["id"])] = answers
            if token is not None:
                session.tokens[json.dumps(token)] = answers
            session.child.send(body)
            self.stream(answers, session.id)
        else:
            session.child.send(body)
            self.plain(202)

    def do_GET(self):
        session = self.local() and self.session()
        if session:
            self.stream(session.unasked, session.id)

    def do_DELETE(self):
        session = self.local() and self.session()
        if session:
            self.known.pop(session.id, None)
            session.child.close()
            self.plain(200)


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ABOUT = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
# Where the value of the header `Mcp-Name` stands in the params.
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
STATUS = {-32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}


class Exchange:
    """A request on its way: the id that the suite gave it, and what comes for it."""

    def __init__(self, message):
        self.id, self.method, self.messages = message["id"], message["method"], queue.Queue()
        self.token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")


class Shared:
    """The one process of all requests. The suite uses ids again; here each request has one of its own."""

    def __init__(self, bridge):
        self.prefix, self.ids, self.open, self.headers = bridge.prefix, itertools.count(1), {}, {}
        self.child = Child(bridge.program, self.told)
        # A process takes its era from the first request, as an HTTP server from the headers of each.
        self.send({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": ABOUT}})[1].messages.get()

    def send(self, message):
        id, exchange = next(self.ids), Exchange(message)
        self.open[id] = exchange
        message = {**message, "id": id}
        self.child.send(named(message, self.prefix) or json.dumps(message).encode())
        return id, exchange

    def cancel(self, id):
        if self.open.pop(id, None):
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            self.child.send(json.dumps(cancelled).encode())

    def told(self, raw):
        if raw is None:
            for exchange in list(self.open.values()):
                exchange.messages.put(None)
            return
        message = json.loads(raw)
        exchange = self.open.pop(message.get("id"), None) if "method" not in message else self.about(message)
        if exchange:
            if "method" not in message:
                message["id"] = exchange.id
                self.unprefix(message.get("result") or {})
            about = (message.get("params") or message.get("result") or {}).get("_meta") or {}
            if SUBSCRIPTION in about:
                about[SUBSCRIPTION] = exchange.id
            exchange.messages.put(message)

    def about(self, message):
        """The request that a notification belongs to: its stream is where it goes."""
        # A copy, because other threads add to it.
        params, open = message.get("params") or {}, list(self.open.items())
        subscription = (params.get("_meta") or {}).get(SUBSCRIPTION)
        if subscription is not None:
            return next((of for id, of in open if str(id) == str(subscription)), None)
        if "progressToken" in params:
            return next((of for _, of in open if of.token == params["progressToken"]), None)
        calls = [of for _, of in open if of.method != "subscriptions/listen"]
        return calls[-1] if calls else None

    def unprefix(self, result):
        for listed in [*result.get("tools", []), *result.get("prompts", [])]:
            listed["name"] = listed["name"].removeprefix(self.prefix)
        for tool in result.get("tools", []):
            properties = tool["inputSchema"].get("properties", {})
            self.headers[tool["name"]] = {name: of["x-mcp-header"] for name, of in properties.items() if "x-mcp-header" in of}


class Stateless(Bridge):
    """Revision 2026-07-28: each POST a request, its answer a stream of its own, one process for all."""

    shared, starting = None, threading.Lock()

    @classmethod
    def close(cls):
        if cls.shared:
            cls.shared.child.close()

    def header(self, name):
        """Its value, decoded; `ValueError` if it cannot be."""
        value = self.headers.get(name)
        coded = re.fullmatch(r"=\?base64\?(.*)\?=", (value or "").strip())
        return base64.b64decode(coded[1], validate=True).decode() if coded else value and value.strip()

    def mismatch(self, message):
        """What is wrong with the headers, given the body."""
        params, method = message.get("params") or {}, message["method"]
        version = (params.get("_meta") or {}).get("io.modelcontextprotocol/protocolVersion")
        named = self.headers.get("MCP-Protocol-Version")
        if named is None or version is not None and named != version:
            return "MCP-Protocol-Version"
        if self.header("Mcp-Method") != method:
            return "Mcp-Method"
        if method in NAMES and self.header("Mcp-Name") != params.get(NAMES[method]):
            return "Mcp-Name"
        arguments = params.get("arguments") or {}
        mirrored = self.shared.headers.get(params["name"], {}) if method == "tools/call" else {}
        for argument, name in mirrored.items():
            if self.header(f"Mcp-Param-{name}") != arguments.get(argument):
                return f"Mcp-Param-{name}"

    def do_POST(self):
        posted = self.message()
        if not posted:
            return
        body, message = posted
        with self.starting:
            Stateless.shared = self.shared or Shared(self)
        if "id" not in message:
            self.shared.child.send(body)
            return self.plain(202)
        try:
            wrong = self.mismatch(message)
        except (ValueError, binascii.Error) as error:
            wrong = str(error)
        if wrong:
            return self.refuse(400, -32020, f"Header mismatch: {wrong}", message["id"])
        # On stdio this chooses the era of the process; over HTTP, where the header does, this revision has no such method.
        if message["method"] == "initialize":
            return self.refuse(404, -32601, "Method not found: initialize", message["id"])
        self.relay(*self.shared.send(message))

    def relay(self, id, exchange):
        streaming = False
        while True:
            try:
                message = exchange.messages.get(timeout=0.02)
            except queue.Empty:
                if self.gone():
                    return self.shared.cancel(id)
                continue
            if message is None:
                return self.refuse(502, -32603, "The server has ended", exchange.id)
            raw = json.dumps(message).encode()
            if "error" in message and not streaming:
                return self.plain(STATUS.get(message["error"]["code"], 200), raw)
            try:
                if not streaming:
                    self.begin_stream(X_Accel_Buffering="no")
                streaming = True
                self.event(raw)
            except OSError:
                return self.shared.cancel(id)
            if "method" not in message:
                return

    def gone(self):
        """Whether the suite has closed the stream: that cancels the request."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
