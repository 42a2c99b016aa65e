"""A session of a library in a process of its own: what it started, the messages, and what was left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from install import CACHES, CLIENTS_DIR, NODE_BIN, TOOLS

HERE = Path(__file__).resolve().parent
SESSION_S = 150
END_S = 20


def environment(home):
    """The variables of a session: nothing of this machine's but the path, and the caches of npm and uv."""
    path = [NODE_BIN, TOOLS / "bin", *os.environ["PATH"].split(":")]
    passed = {name: value for name, value in os.environ.items() if name.startswith(("SSL_", "NODE_EXTRA_"))}
    directories = {f"XDG_{name}_HOME": f"{home}/{name.lower()}" for name in ("CONFIG", "CACHE", "DATA", "STATE")}
    silent = {"MCP_USE_ANONYMIZED_TELEMETRY": "false", "DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true",
              "CREWAI_DISABLE_TELEMETRY": "true", "MASTRA_TELEMETRY_DISABLED": "true"}
    silent["PYTHONPYCACHEPREFIX"] = str(CLIENTS_DIR / "cache/python")
    return {**passed, **CACHES, **directories, **silent, "PATH": ":".join(map(str, path)), "LANG": "C.UTF-8",
            "HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/run"}


def processes(home):
    """The command lines of the processes of a session, by pid: those that have its home directory as a variable, or in
    an argument as the host of shared servers has."""
    found, variable = {}, f"HOME={home}".encode()
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            line = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if f"{home}/" in line or variable in (proc / "environ").read_bytes().split(b"\0"):
                found[int(proc.name)] = line
        except OSError:
            pass
    return {pid: line for pid, line in found.items() if line}


class Run:
    """One session of a library, and what was observed of it."""

    def __init__(self, client, command, home, name, target, plan):
        self.home, self.seen = home, {}
        (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
        base = home / name
        self.log, self.output = base.with_suffix(".messages"), base.with_suffix(".output")
        self.log.unlink(missing_ok=True)
        program = self.logged(base.with_suffix(".bin"), target[0])
        plan["server"] = {"command": program, "args": target[1:], "env": environment(home)}
        base.with_suffix(".plan").write_text(json.dumps(plan))
        report = base.with_suffix(".report")
        report.unlink(missing_ok=True)
        self.session([*command, base.with_suffix(".plan"), report])
        self.report = json.loads(report.read_text()) if report.exists() else None
        self.left = self.wait_for_end()

    def logged(self, directory, program):
        """A program of the same name that writes the messages to the log, because libraries may look at the name."""
        directory.mkdir(exist_ok=True)
        wrapper = directory / Path(program).name
        wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/tee.py" "{self.log}" "{program}" "$@"\n')
        wrapper.chmod(0o755)
        return str(wrapper)

    def session(self, command):
        """Runs the script until its end or the deadline."""
        with open(self.output, "wb") as output:
            script = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.home,
                                      env=environment(self.home))
        deadline = time.monotonic() + SESSION_S
        while script.poll() is None and time.monotonic() < deadline:
            self.seen.update(processes(self.home))
            time.sleep(0.3)
        if script.poll() is None:
            script.kill()
            script.wait()

    def wait_for_end(self):
        """The processes that are left after a time; they are ended."""
        deadline = time.monotonic() + END_S
        while (left := processes(self.home)) and time.monotonic() < deadline:
            time.sleep(0.2)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        return list(left.values())

    def failure(self):
        """Why there is no report: the last line of the output that names an error."""
        lines = self.output.read_text(errors="replace").strip().splitlines() or ["no output"]
        errors = [line for line in lines if "Error" in line]
        return f"no report: {(errors or lines)[-1].strip(' |')[:200]}"

    def messages(self):
        """The messages in the log, with their direction."""
        for line in self.log.read_text().splitlines() if self.log.exists() else []:
            try:
                yield line[0], json.loads(line[2:])
            except ValueError:
                pass

    def revisions(self):
        """The revisions of MCP that were used."""
        found = set()
        for mark, message in self.messages():
            if mark == "<" and isinstance(message.get("result"), dict):
                found.add(message["result"].get("protocolVersion"))
            elif mark == ">":
                meta = (message.get("params") or {}).get("_meta") or {}
                if message.get("method") != "server/discover":
                    found.add(meta.get("io.modelcontextprotocol/protocolVersion"))
        return sorted(found - {None})

    def definitions(self):
        """The definitions of the tools in the last list that the server sent."""
        lists = [message["result"]["tools"] for mark, message in self.messages()
                 if mark == "<" and isinstance(message.get("result"), dict) and "tools" in message["result"]]
        return lists[-1] if lists else []
