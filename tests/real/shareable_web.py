"""A web server on this machine for servers that fetch pages, and a log of what they ask it for."""

import http.server
import json
import struct
import subprocess
import threading
import time
import zlib
from pathlib import Path

# A name and an address of the internet, which this machine answers in a network of its own: many servers fetch nothing
# from a private address.
HOST, ADDRESS, PORT = "example.com", "93.184.215.14", 8099
WEB = f"http://{HOST}:{PORT}"
# Headers by which a client shows that it remembers earlier answers, or who it is.
LOGGED = ("Cookie", "If-None-Match", "If-Modified-Since", "Authorization", "Referer", "User-Agent")
PETS = [{"id": 1, "name": "Rex"}, {"id": 2, "name": "Tom"}]
OPENAPI = {"openapi": "3.0.0", "info": {"title": "pets", "version": "1"}, "paths": {"/pets": {"get": {
    "operationId": "listPets", "summary": "Lists pets", "responses": {"200": {"description": "pets"}}}}}}


def picture():
    """A grey PNG picture of 200 x 200 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * 200) * 200
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 200, 200, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def page(path):
    """Returns the type and the text of a page, or None."""
    if path == "/robots.txt":
        return None
    if path.endswith(".png"):
        return "image/png", picture()
    if path.startswith("/openapi"):
        return "application/json", json.dumps({**OPENAPI, "servers": [{"url": WEB}]})
    if path.startswith("/pets"):
        return "application/json", json.dumps(PETS)
    if path.endswith(".json"):
        return "application/json", json.dumps({"page": path})
    if path.endswith((".txt", ".md")):
        return "text/plain; charset=utf-8", f"# Text\n\nThe page {path}.\n"
    image = f"<img src='{WEB}/a.png' width='200' height='200' alt='a'>" if path == "/image" else ""
    text = f"The page {path}. " + "It has enough words that a reader takes it for an article. " * 5
    return "text/html; charset=utf-8", (f"<!DOCTYPE html><html><head><title>Title {path}</title></head><body><article>"
                         f"<h1>Page</h1><p>{text}</p>{image}<p><a href='/one'>one</a></p></article></body></html>")


def take_address():
    """Gives the address and the name to this network namespace and mount namespace."""
    hosts = Path("/tmp/hosts")
    hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


class WebServer:
    """Each answer sets a cookie and may be cached, so that a client that keeps either shows it in the log. /slow takes
    0.6 s."""

    def __init__(self):
        log = self.log = []
        self.port = PORT

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
                known = {name: self.headers[name] for name in LOGGED if self.headers[name]}
                log.append(f"{self.command} {self.path} {json.dumps(known)} {body}")
                if self.path.startswith("/slow"):
                    time.sleep(0.6)
                found = page(self.path)
                content = found[1] if found else ""
                content = content if isinstance(content, bytes) else content.encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", (found or ["text/plain"])[0])
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Set-Cookie", "session=kept; Path=/")
                self.send_header("ETag", '"1"')
                self.send_header("Cache-Control", "max-age=600")
                self.end_headers()
                self.wfile.write(content if self.command != "HEAD" else b"")

            do_HEAD = do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("", PORT), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def mark(self):
        return len(self.log)

    def since(self, mark):
        return self.log[mark:]
