#!/usr/bin/env python3
"""Measures how soon the flat list of 70 servers is there when the cache knows them.

    cargo build --release && cargo build --example scripted_upstream
    benches/flat/run.py [PROGRAM]                 # SURFACE=meta measures the default list

The servers have the tools of benches/data and some more, 700 in all. The first session fills the cache. Then the
program is started again and again: the times are from its start to the last byte of the answer to `tools/list`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RUNS = 20
SURFACE = os.environ.get("SURFACE", "flat")


class Session:
    def __init__(self, program, config, env):
        self.start = time.monotonic()
        command = [program, "--surface", SURFACE, "--config", config]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        self.last_id = 0
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", info)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            # Parsing it would take longer than the answer.
            if b'"id":%d,' % self.last_id in line[:40]:
                return line

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else TARGET / "release/dynamic-mcp"
    with tempfile.TemporaryDirectory() as home:
        servers = {}
        for catalog in json.loads((ROOT / "benches/data/livemcp-70.json").read_text()):
            file = Path(home) / catalog["server"]
            count = 3 if len(servers) < 33 else 2
            tools = catalog["tools"] + [{**catalog["tools"][0], "name": f"more_{number}"} for number in range(count)]
            file.write_text(",".join(json.dumps(tool) for tool in tools))
            upstream = str(TARGET / "debug/examples/scripted_upstream")
            allowed = {"allow": [tool["name"] for tool in tools]}
            servers[catalog["server"]] = {"command": [upstream, "--definitions-file", str(file)], "tools": allowed}
        config = Path(home) / "servers.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        env = {"HOME": home, "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": home}
        first = Session(program, str(config), env)
        index = Path(home) / ".cache/dynamic-mcp/index.json"
        while not index.exists() or len(json.loads(index.read_text())["servers"]) < len(servers):
            time.sleep(0.2)
        first.end()
        times, cpu, lists = [], [], set()
        for _ in range(RUNS):
            session = Session(program, str(config), env)
            answer = session.request("tools/list", {})
            times.append((time.monotonic() - session.start) * 1000)
            lists.add(answer)
            fields = Path(f"/proc/{session.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            cpu.append((int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK"))
            session.end()
        tools = json.loads(answer)["result"]
        print(f"{len(tools['tools'])} tools in {len(answer):,} bytes, {len(lists)} different answers, more pages: {'nextCursor' in tools}")
        print(f"from the start to the list: median {statistics.median(times):.1f} ms (lowest {min(times):.1f}, highest {max(times):.1f}); processor time {statistics.median(cpu):.0f} ms")


if __name__ == "__main__":
    main()
