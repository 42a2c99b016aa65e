"""A server that lists the tools of one catalog: python3 -I -S upstream.py CATALOG.json LOG

Each call is answered with "CALLED SERVER/TOOL", and the server appends what happens to it to LOG. After its first call a
server with the variable GROWS has one tool more, `added_later`, and says so.
"""

import json
import os
import sys

ADDED = {"name": "added_later", "description": "Tells what was added during this session", "inputSchema": {"type": "object"}}


def note(text):
    """Appends a line to the log, in one write, because all servers share it."""
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, (text + "\n").encode())
    os.close(log)


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        catalog = json.load(file)
    tools, grows = catalog["tools"], "GROWS" in os.environ
    note(f"start {catalog['server']}")
    for line in sys.stdin:
        message = json.loads(line)
        method, identifier = message.get("method"), message.get("id")
        if identifier is None or method is None:
            continue
        if method == "initialize":
            send({"id": identifier, "result": {
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": catalog["server"], "version": "1"}}})
        elif method == "tools/list":
            note(f"list {catalog['server']}")
            send({"id": identifier, "result": {"tools": tools}})
        elif method == "tools/call":
            text = f"CALLED {catalog['server']}/{message['params']['name']}"
            note(text)
            send({"id": identifier, "result": {"content": [{"type": "text", "text": text}]}})
            if grows:
                tools, grows = [*tools, ADDED], False
                send({"method": "notifications/tools/list_changed"})
        elif method == "ping":
            send({"id": identifier, "result": {}})
        else:
            send({"id": identifier, "error": {"code": -32601, "message": "Method not found"}})


main()
