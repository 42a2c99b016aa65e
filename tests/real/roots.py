#!/usr/bin/env python3
"""Counts first calls that see the client's roots: roots.py SERVER PROGRAM [CALLS]

SERVER is the program of @modelcontextprotocol/server-filesystem, which asks for roots after each start. PROGRAM is
dynamic-mcp. Each of the CALLS (200 unless given) is the first one after a start of the server: of dynamic-mcp itself, or
after an idle close. Without directories in its arguments, the server must read a file that the roots include. With one,
it must refuse a file there, because the roots exclude it. The report is a JSON object with the number of calls that do
so, of each kind, and of all calls.
"""

import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from direct_client import GROUP, Client

CLOSE_TIMEOUT_S = 60
# With idle closes, so many calls are made for each start of dynamic-mcp.
CALLS_PER_START = 3
TEXT = "the file was read"


def start(server, program, base, mode, surface, args):
    """Starts dynamic-mcp with an empty cache, and returns its client."""
    entry = {"command": str(server), "args": args, "lazy_startup": mode, "idle_timeout": "100ms"}
    config = base / "config.json"
    config.write_text(json.dumps({"mcpServers": {GROUP: entry}}))
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "XDG_RUNTIME_DIR": str(base)}
    command = [program, "--config", str(config), "--surface", surface]
    return Client(command, env, base, [base / "inside"]).initialize()


def state(client):
    status = client.request("tools/call", {"name": "get_status", "arguments": {}})
    return status["result"]["structuredContent"]["groups"][0]["state"]


def wait_for(client, expected):
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    while state(client) != expected:
        if time.monotonic() > deadline:
            sys.exit(f"the server is not {expected} but {state(client)}")
        time.sleep(0.02)


def sees_roots(client, surface, file, is_inside):
    """Makes a call, and returns whether its result is that of the roots."""
    call = {"name": "read_text_file", "arguments": {"path": str(file)}}
    if surface == "meta":
        call = {"name": "call_dynamic_tool", "arguments": {
            "group": GROUP, "name": call["name"], "args": call["arguments"]}}
    else:
        call["name"] = f"{GROUP}__{call['name']}"
    text = json.dumps(client.request("tools/call", call), default=float)
    sees = (TEXT in text) if is_inside else ("Access denied" in text)
    if not sees:
        print(text, file=sys.stderr)
    return sees


def main(server, program, calls):
    kinds = list(itertools.product(("hybrid", "pure", "eager"), ("meta", "flat"), (True, False)))
    report, made, right = {}, 0, 0
    for mode, surface, is_inside in itertools.cycle(kinds):
        if made >= calls:
            break
        with tempfile.TemporaryDirectory() as base:
            base = Path(base)
            for name in ("inside", "outside"):
                (base / name).mkdir()
                (base / name / "file.txt").write_text(TEXT)
            file = base / ("inside" if is_inside else "outside") / "file.txt"
            client = start(server, program, base, mode, surface, [] if is_inside else [str(base / "outside")])
            for number in range(min(calls - made, 1 if mode == "eager" else CALLS_PER_START)):
                if number > 0:
                    wait_for(client, "discovered")
                elif mode == "eager" or surface == "flat" and mode == "hybrid":
                    # A tool is called by its own name once it is listed.
                    wait_for(client, "connected" if mode == "eager" else "discovered")
                sees = sees_roots(client, surface, file, is_inside)
                kind = f"{mode}, {surface}, {'without' if is_inside else 'with'} a directory, " + (
                    "idle close" if number else "start")
                counts = report.setdefault(kind, [0, 0])
                counts[0] += sees
                counts[1] += 1
                made, right = made + 1, right + sees
            client.close()
    report = {kind: f"{counts[0]} of {counts[1]}" for kind, counts in sorted(report.items())}
    print(json.dumps({**report, "all": f"{right} of {made}"}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).resolve()), int((sys.argv[3:] or [200])[0]))
