"""A server that deviates from MCP in one way: python server_odd.py WAY. It needs no package."""

import json
import sys

WAY = sys.argv[1]


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


def list_tools(cursor):
    """The outcome of tools/list."""
    if WAY == "no list":
        return {"error": {"code": -32601, "message": "Method not found"}}
    if WAY == "broken list":
        return {"error": {"code": -32603, "message": "broken"}}
    if WAY == "twice":
        return {"result": {"tools": [tool("a"), tool("a"), tool("b")]}}
    if WAY == "circle":
        name, following = {None: ("a", "1"), "1": ("b", "2"), "2": ("c", "1")}[cursor]
        return {"result": {"tools": [tool(name)], "nextCursor": following}}
    return {"result": {"tools": [tool("a")]}}


for line in sys.stdin:
    message = json.loads(line)
    method, request = message["method"], message.get("id")
    if request is None:
        continue
    if method == "initialize":
        outcome = {"result": {
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"}}}
    elif method == "tools/list":
        outcome = list_tools((message.get("params") or {}).get("cursor"))
    else:
        outcome = {"result": {"content": [{"type": "text", "text": "caf@"}]}}
    identifier = float(request) if WAY == "fraction" else request
    text = json.dumps({"jsonrpc": "2.0", "id": identifier, **outcome}).encode()
    # 0xE9 is "é" in Latin-1.
    sys.stdout.buffer.write(text.replace(b"@", b"\xe9" if WAY == "bytes" else b"e") + b"\n")
    sys.stdout.buffer.flush()
