"""What direct.py runs: the servers, dynamic-mcp in front of them, and a client of both. Also how they are installed,
and the namespaces that they run in."""

import concurrent.futures
import decimal
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[2] / "target")).resolve() / "direct"
CACHES = {"npm_config_cache": str(TARGET / "npm"), "UV_CACHE_DIR": str(TARGET / "uv")}
UV_VERSION = "0.13.9"
GROUP = "g"
REVISION = "2025-11-25"
INSTALL_TIMEOUT_S = 300
START_TIMEOUT_S = 60
# Through dynamic-mcp, on a loaded machine.
ANSWER_TIMEOUT_S = 40


class Failed(Exception):
    """A server or dynamic-mcp does not do what the comparison needs."""


# Numbers keep the form in which they were written.
DECODER = json.JSONDecoder(parse_float=decimal.Decimal)


def dump(value):
    return json.dumps(value, default=float, ensure_ascii=False)


class Client:
    """An MCP client of a program, on its stdin and stdout. It has roots if directories are given for that."""

    def __init__(self, command, env, cwd, roots=None):
        self.roots, self.was_asked_for_roots = roots, False
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env, cwd=cwd, start_new_session=True)
        self.messages, self.last_id, self.hello = queue.Queue(), 0, None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = DECODER.decode(line.decode())
            except ValueError:
                continue
            if isinstance(message, dict) and "method" in message and "id" in message:
                self.write({"jsonrpc": "2.0", "id": message["id"], **self.answer(message["method"])})
            self.messages.put(message)
        self.messages.put(None)

    def answer(self, method):
        if method == "ping":
            return {"result": {}}
        if method == "roots/list" and self.roots is not None:
            self.was_asked_for_roots = True
            return {"result": {"roots": [{"uri": Path(root).as_uri()} for root in self.roots]}}
        return {"error": {"code": -32601, "message": "not offered"}}

    def write(self, message):
        try:
            self.process.stdin.write(dump(message).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def request(self, method, params, timeout=ANSWER_TIMEOUT_S):
        """Returns the answer with `result` or `error`, or None if there is none in time."""
        self.last_id += 1
        self.write({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        deadline = time.monotonic() + timeout
        while True:
            try:
                message = self.messages.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if message is None:
                self.messages.put(None)
                return None
            if isinstance(message, dict) and message.get("id") == self.last_id and "method" not in message:
                return {key: message[key] for key in ("result", "error") if key in message}

    def initialize(self):
        capabilities = {} if self.roots is None else {"roots": {"listChanged": True}}
        answer = self.request("initialize", {"protocolVersion": REVISION, "capabilities": capabilities,
                                             "clientInfo": {"name": "direct", "version": "1"}}, START_TIMEOUT_S)
        if answer is None or "result" not in answer:
            raise Failed(f"no handshake: {dump(answer)[:200]}")
        self.hello = answer["result"]
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def list_all(self, method, key, **params):
        """Returns all pages of a list, or the error."""
        found, cursor = [], {}
        while True:
            answer = self.request(method, {**params, **cursor})
            if answer is None or "result" not in answer:
                return answer
            found += answer["result"].get(key, [])
            if not answer["result"].get("nextCursor"):
                return found
            cursor = {"cursor": answer["result"]["nextCursor"]}

    def close(self):
        """Ends the program, and waits for it."""
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()


class Server:
    """A published server of the list, and the directories that it runs in."""

    def __init__(self, entry, program):
        self.launcher, self.name, self.version = entry["launcher"], entry["name"], entry["version"]
        self.bin = entry.get("bin", self.name.split("/")[-1])
        self.entry, self.program = entry, program
        self.base = Path("/tmp/direct") / re.sub(r"\W", "_", self.name)
        self.files = self.base / "files"
        self.clients = []

    def fill(self, value):
        return json.loads(json.dumps(value).replace("{files}", str(self.files)))

    @property
    def launch(self):
        """The command with its launcher."""
        if self.launcher == "npx":
            return ["npx", "-y", f"--package={self.name}@{self.version}", self.bin]
        others = [word for each in self.entry.get("with", []) for word in ("--with", each)]
        return ["uvx", "-q", "--python", sys.executable, "--from", f"{self.name}=={self.version}", *others, self.bin]

    def install(self):
        """Fills the cache of the launcher, and remembers where it put the program."""
        place = TARGET / "places" / f"{self.name.replace('/', '_')}-{self.version}"
        if not place.exists():
            env = {**os.environ, **CACHES, "npm_config_ignore_scripts": "true", "PATH": path()}
            command = self.launch[:-1] + (["sh", "-c", f"command -v {self.bin}"])
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=INSTALL_TIMEOUT_S, cwd=TARGET)
            if done.returncode != 0:
                raise Failed(f"not installed: {done.stderr[-300:]}")
            place.write_text(done.stdout.strip().splitlines()[-1])
        return place.read_text()

    def fresh(self):
        """Makes the directories anew: the same paths and content for each session."""
        shutil.rmtree(self.base, ignore_errors=True)
        for directory in ("files/folder", "home", "proxy", "run", "tmp"):
            (self.base / directory).mkdir(parents=True, mode=0o700)
        (self.files / "a.txt").write_text("one\ntwo\nthree\n")
        (self.files / "folder/b.json").write_text('{"b": [1, 2.50, true]}\n')
        for name, text in self.entry.get("files", {}).items():
            (self.files / name).write_text(text)
        subprocess.run(self.entry.get("setup", "true"), shell=True, cwd=self.files, check=True, capture_output=True,
                       env={**self.environment(), "HOME": str(self.base / "home")}, timeout=30)

    def environment(self):
        return {"PATH": path(), "LANG": "C.UTF-8", "HOME": str(self.base / "proxy"), **CACHES,
                "XDG_RUNTIME_DIR": str(self.base / "run"), "npm_config_offline": "true", "UV_OFFLINE": "1"}

    def own_environment(self):
        return {"HOME": str(self.base / "home"), "TMPDIR": str(self.base / "tmp"), **self.fill(self.entry.get("env", {}))}

    def arguments(self):
        return self.fill(self.entry.get("args", []))

    def roots(self):
        return [self.files / "folder"]

    def direct(self, args=None, roots=None):
        """Starts the server itself."""
        return self.client([self.install(), *(self.arguments() if args is None else args)],
                           {**self.environment(), **self.own_environment()}, self.files, roots)

    def client(self, command, env, cwd, roots=None):
        client = Client(command, env, cwd, roots)
        self.clients.append(client)
        return client.initialize()

    def clean(self):
        """Ends what is left, and removes the directories."""
        for client in self.clients:
            client.close()
        shutil.rmtree(self.base, ignore_errors=True)

    def proxied(self, surface, launcher=False, share="client"):
        """Starts dynamic-mcp with the server, and waits until that is connected."""
        entry = {"command": self.launch if launcher else [self.install()], "args": self.arguments(), "share": share,
                 "lazy_startup": "eager", "launcher": "direct" if launcher else "keep"}
        return self.wait_for("connected", self.start(surface, entry))

    def lazy(self, args):
        """Starts dynamic-mcp with the server, which is closed after each request, for a client with roots."""
        entry = {"command": [self.install()], "args": args, "lazy_startup": "hybrid", "idle_timeout": "100ms"}
        return self.start("meta", entry, self.roots())

    def start(self, surface, entry, roots=None):
        config = self.base / "config.json"
        entry = {**entry, "env": self.own_environment(), "cwd": str(self.files)}
        config.write_text(json.dumps({"mcpServers": {GROUP: entry}}))
        return self.client([self.program, "--config", str(config), "--surface", surface, "--log-level", "debug"],
                           self.environment(), self.base, roots)

    def wait_for(self, state, client):
        """Waits until the server is in this state. Returns the client."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            status = client.request("tools/call", {"name": "get_status", "arguments": {}})
            client.group = status["result"]["structuredContent"]["groups"][0] if status else {}
            if client.group.get("state") == state:
                return client
            time.sleep(0.2)
        client.close()
        raise Failed(f"not {state}: {client.group.get('error')}")


def path():
    """PATH with the launchers."""
    return f"{TARGET / 'uv-bin/bin'}:{os.environ['PATH']}"


def gone(pid):
    """Waits until a process has ended: a shared one outlives its sessions."""
    deadline = time.monotonic() + 15
    while pid and Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def install(entries):
    TARGET.joinpath("places").mkdir(parents=True, exist_ok=True)
    if not (TARGET / "uv-bin/bin/uvx").exists():
        subprocess.run([sys.executable, "-m", "venv", TARGET / "uv-bin"], check=True)
        subprocess.run([TARGET / "uv-bin/bin/pip", "install", "-q", f"uv=={UV_VERSION}"], check=True)

    def one(entry):
        try:
            Server(entry, "").install()
        except (Failed, subprocess.SubprocessError) as error:
            print(f"{entry['name']} {entry['version']}: {str(error)[:400]}", file=sys.stderr)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, entries))


def run_in_namespaces():
    """Runs this script again without network, other processes and a file system that can be written. Returns its exit
    code."""
    script = (f"ip link set lo up; mount --bind '{TARGET}' '{TARGET}' && mount -o remount,bind,ro / && "
              "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm && exec \"$0\" \"$@\"")
    command = ["unshare", "--map-root-user", "--net", "--ipc", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh",
               "-c", script, sys.executable, *sys.argv[:1], "--inside", *sys.argv[1:]]
    return subprocess.run(command).returncode
