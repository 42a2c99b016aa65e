"""A client for one run of an installed program: handshake, tools, a call through a server, and how it ends.

    packaging/session.py PROGRAM
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Seconds for each answer, and until no process is left. Emulated processors are slow.
DEADLINE = 60
# How a run can end.
ENDS = ("end of stdin", "SIGTERM", "SIGKILL")


class Session:
    """A running program, as a client starts it."""

    def __init__(self, command, environment=None):
        self.buffer = b""
        self.errors = tempfile.TemporaryFile()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def send(self, message):
        self.process.stdin.write((json.dumps({"jsonrpc": "2.0"} | message) + "\n").encode())
        self.process.stdin.flush()

    def line(self):
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not chunk:
                self.errors.seek(0)
                raise RuntimeError(f"no answer; stderr:\n{self.errors.read().decode(errors='replace')}")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def request(self, method, **params):
        self.send({"id": 1, "method": method, "params": params})
        while True:
            message = json.loads(self.line())
            if message.get("id") == 1 and "method" not in message:
                return message["result"]

    def begin(self):
        """Handshake, list of tools, and a call through a server, which then runs."""
        client = {"name": "try", "version": "1"}
        answer = self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        assert answer["serverInfo"]["name"] == "dynamic-mcp", answer
        self.send({"method": "notifications/initialized"})
        names = [tool["name"] for tool in self.request("tools/list")["tools"]]
        assert "call_dynamic_tool" in names, names
        call = {"group": "team", "name": "list_notes", "args": {}}
        result = self.request("tools/call", name="call_dynamic_tool", arguments=call)
        assert not result.get("isError") and result["content"], result


def processes_of(folder):
    """The processes whose program or arguments are in the folder, which Wine has as `Z:\\tmp\\…`."""
    folders = [str(folder), str(folder).replace("/", "\\")]
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            program = os.readlink(entry / "exe")
        except OSError:
            continue
        if str(folder) in program or any(each in arguments for each in folders):
            found[int(entry.name)] = arguments.strip() or program
    return found


def wait_until_gone(folder):
    began = time.monotonic()
    while left := processes_of(folder):
        if time.monotonic() - began > DEADLINE:
            raise RuntimeError(f"left behind: {left}")
        time.sleep(0.01)
    return time.monotonic() - began


def config_in(folder, server):
    path = Path(folder) / "servers.json"
    entry = {"description": "Notes", "command": server[0], "args": [*server[1:], "__demo-server", "team"]}
    path.write_text(json.dumps({"mcpServers": {"team": entry}}))
    return path


def run(folder, command, server, environment=None, ends=ENDS):
    """Runs the program once for each end. `server` runs the program."""
    config = config_in(folder, server)
    command = [argument.replace("CONFIG", str(config)) for argument in command]
    if str(config) not in command:
        command += ["--config", str(config)]
    report = []
    for way in ends:
        session = Session(command, environment)
        try:
            session.begin()
            running = len(processes_of(folder))
            assert running >= 2, "the server does not run"
            if way != "end of stdin":
                session.process.send_signal(getattr(signal, way))
                session.process.wait(DEADLINE)
            # A client whose server has ended closes the pipe. Only then does what npx or env started notice.
            session.process.stdin.close()
            code = session.process.wait(DEADLINE)
            if way == "end of stdin":
                assert code == 0, code
            gone = wait_until_gone(folder)
            report.append(f"{way}: {running} processes, exit {code}, none left after {gone:.2f} s")
        finally:
            session.process.kill()
            session.process.wait()
    return "; ".join(report)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        program = shutil.copy(sys.argv[1], folder)
        print(run(folder, [program], [program], dict(os.environ, HOME=home, XDG_RUNTIME_DIR=home)))
