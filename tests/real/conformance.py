#!/usr/bin/env python3
"""Runs the official conformance suite's server scenarios against a stdio server, or against `serve --http`.

usage: conformance.py NODE SUITE PREFIX [http:]REVISION[/SCENARIO,...] CMD ARG...

The last line of the output is a JSON object: the status of each check by name, for each scenario.
"""
import json, re, subprocess, sys, tempfile, threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from conformance_bridges import Bridge, SessionBridge, StatelessBridge
from conformance_http import HttpRelay

NODE, SUITE, Bridge.prefix, REVISION, Bridge.program = *sys.argv[1:5], sys.argv[5:]


def checks(directory):
    """The status of each check. Checks with the same name get numbers: `name 2`, and so on."""
    statuses = {}
    if not (directory / "checks.json").exists():
        return {"run": "FAILURE: the suite wrote no checks"}
    for check in json.loads((directory / "checks.json").read_text()):
        name, number = check["name"], 1
        while name in statuses:
            number += 1
            name = f"{check['name']} {number}"
        statuses[name] = check["status"] + (f": {check['errorMessage']}" if check["status"] == "FAILURE" else "")
    return statuses


REVISION, _, only = REVISION.partition("/")
over_http, REVISION = REVISION.startswith("http:"), REVISION.removeprefix("http:")
if over_http:
    HttpRelay.start()
bridge = HttpRelay if over_http else StatelessBridge if REVISION == "2026-07-28" else SessionBridge
ThreadingHTTPServer.daemon_threads = True
server = ThreadingHTTPServer(("127.0.0.1", 0), bridge)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as out:
    url = f"http://localhost:{server.server_address[1]}/mcp"
    named = [["--scenario", scenario, "--spec-version", REVISION, "--force"] for scenario in only.split(",") if scenario]
    output = ""
    for selected in named or [["--requirements", REVISION]]:
        suite = [NODE, SUITE, "server", "--url", url, *selected, "-o", out]
        output += subprocess.run(suite, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    name = lambda directory: re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT.*", directory.name)[1]
    scenarios = {name(directory): checks(directory) for directory in sorted(Path(out).iterdir())}
bridge.close()
print(output)
print(json.dumps(scenarios))
