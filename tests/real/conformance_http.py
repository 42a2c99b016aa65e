"""`dynamic-mcp serve --http` behind a relay that adds and removes the prefix of names. All else passes as it is: hosts,
headers, statuses and streams are those of the program.
"""
import base64, http.client, json, queue, re, subprocess, threading
from conformance_bridges import Bridge, with_prefix

HOP_HEADERS = {"content-length", "transfer-encoding", "connection", "keep-alive"}


class HttpRelay(Bridge):
    process, port = None, None

    @classmethod
    def start(cls):
        cls.process = subprocess.Popen(cls.program, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in cls.process.stderr:
            if "listening" in line:
                cls.port = int(re.search(r"address=[0-9.]+:(\d+)", line)[1])
            if "requests are served" in line:
                break
        threading.Thread(target=cls.process.stderr.read, daemon=True).start()

    @classmethod
    def close(cls):
        cls.process.terminate()
        cls.process.wait()

    def request_headers(self, body):
        headers = [(name, value) for name, value in self.headers.items() if name.lower() != "content-length"]
        return [(name, self.named(value) if name.lower() == "mcp-name" and self.is_named(body) else value) for name, value in headers]

    def is_named(self, body):
        try:
            return json.loads(body)["method"] in ("tools/call", "prompts/get")
        except (ValueError, KeyError, TypeError):
            return False

    def named(self, value):
        encoded = re.fullmatch(r"=\?base64\?(.*)\?=", value.strip())
        try:
            return f"=?base64?{base64.b64encode(self.prefix.encode() + base64.b64decode(encoded[1], validate=True)).decode()}?=" if encoded else self.prefix + value.strip()
        except ValueError:
            return value

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = self.request_headers(body)
        try:
            sent = with_prefix(json.loads(body), self.prefix) or body
        except (ValueError, KeyError, TypeError, AttributeError):
            sent = body
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        if sent or self.command == "POST":
            connection.putheader("Content-Length", str(len(sent)))
        connection.endheaders(sent)
        response = connection.getresponse()
        try:
            self.respond(response)
        finally:
            connection.close()

    def respond(self, response):
        is_stream = (response.headers.get("Content-Type") or "").startswith("text/event-stream")
        body = None if is_stream else self.without_prefix(response.read())
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        lines = queue.Queue()
        threading.Thread(target=read_lines, args=(response, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=0.02)
            except queue.Empty:
                if self.is_closed():
                    response.fp.raw._sock.shutdown(2)
                    return
                continue
            if line is None:
                return
            self.wfile.write(self.without_prefix(line))
            self.wfile.flush()

    def without_prefix(self, text):
        return text.replace(b'"name":"' + self.prefix.encode(), b'"name":"')

    do_GET = do_POST = do_DELETE = relay


def read_lines(response, lines):
    """Puts each line of a stream into the queue, and `None` at its end."""
    try:
        while line := response.readline():
            lines.put(line)
    except (OSError, ValueError, AttributeError, http.client.HTTPException):
        pass
    lines.put(None)
