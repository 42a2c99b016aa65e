"""A server of Streamable HTTP with sessions, whose GETs or whose sessions fail as the path says. Prints its port.

/get/STATUS: GET is refused with this status. /closes: the stream of a GET ends without an event. /restart: the tool
`restart` makes the server forget its sessions, and it then refuses requests as a restarted server of the TypeScript SDK
does.
"""

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sessions = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", media_type="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("Content-Type", media_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/get/"):
            return self.answer(int(self.path.removeprefix("/get/")))
        if self.path == "/closes":
            return self.answer(200, b": nothing\n\n", "text/event-stream")
        self.answer(405)

    def do_DELETE(self):
        self.answer(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method")
        if method == "server/discover":
            return self.answer(400, b"{}")
        if method == "initialize":
            session = uuid.uuid4().hex
            sessions.add(session)
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "unusual", "version": "1"}}
            return self.respond(message, {"result": result}, Mcp_Session_Id=session)
        if self.headers["Mcp-Session-Id"] not in sessions:
            error = {"code": -32000, "message": "Bad Request: Server not initialized"}
            return self.respond(message, {"error": error}, 400)
        if "id" not in message:
            return self.answer(202)
        self.respond(message, self.outcome(method, message.get("params", {})))

    def outcome(self, method, params):
        if method == "tools/list":
            return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "restart")]}}
        if method == "tools/call":
            if params["name"] == "restart":
                sessions.clear()
            return {"result": {"content": [{"type": "text", "text": params["name"]}]}}
        if method == "ping":
            return {"result": {}}
        return {"error": {"code": -32601, "message": "no such method"}}

    def respond(self, message, outcome, status=200, **headers):
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **outcome})
        self.answer(status, body.encode(), **headers)

    def log_message(self, *_args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever).start()
