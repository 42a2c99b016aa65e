#!/usr/bin/env python3
"""Compares what published MCP servers answer when a client talks to them directly and through dynamic-mcp.

    cargo build --release && tests/real/direct.py
    tests/real/direct.py --only time-mcp --program target/release/dynamic-mcp

The servers, with exact versions and the calls written for them, are in direct_servers.json. They are installed into
target/direct (python3 and npm are needed, and the network, once). Then everything runs in namespaces of its own
(Linux, `unshare`): without network, without other processes, with a file system that only target/direct and an empty
/tmp can be written in. So the calls are harmless, whatever a server does.

Each server has the same session five ways: directly; `meta`, through the tools of dynamic-mcp; `flat`, under exposed
names; `launcher`, started by npx or uvx with `"launcher": "direct"`, at the second start; and `shared` by two clients at
once. Definitions, lists, contents, results and errors must be equal as JSON. What differs between two direct sessions is
not compared. In `meta` and `flat` each tool is also called with generated arguments, fit and unfit.

The differences that dynamic-mcp makes on purpose are in DECIDED. Any other one is printed, and the exit code is then 1.
"""

import argparse
import collections
import concurrent.futures
import copy
import decimal
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVERS = Path(__file__).with_name("direct_servers.json")
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "direct"
CACHES = {"npm_config_cache": str(TARGET / "npm"), "UV_CACHE_DIR": str(TARGET / "uv")}
UV_VERSION = "0.13.9"
GROUP = "g"
REVISION = "2025-11-25"
SEED = 7
INSTALL_TIMEOUT_S = 300
START_TIMEOUT_S = 60
# A call that takes longer directly is left out.
CALL_TIMEOUT_S = 8
# Through dynamic-mcp, on a loaded machine.
PROXY_TIMEOUT_S = 40
# No more generated calls are planned after this time in the first direct session of a server.
GENERATED_S = 40
MAX_TOOLS_GENERATED = 30
# Tools that end processes, or wait for a person or a browser. They are listed and described, not called.
NOT_CALLED = re.compile(r"kill|terminate|shutdown|restart|install|feedback|sleep|wait|subscribe", re.I)

DECIDED = {
    "finding": "the server answers with an error, and our finding about the arguments follows it",
    "repaired": "arguments that do not fit are repaired before the server gets them",
    "refused": "a required argument is missing, or an object or array stands for a scalar or the reverse: not called",
    "no type": 'a definition without "type" in its inputSchema gets "type": "object" in lists',
    "unknown tool": "the error for a tool that does not exist is our own",
    "unknown method": "the error for a method that MCP does not have is our own",
}


class Failed(Exception):
    """A server or dynamic-mcp does not do what the comparison needs."""


# Values: compared exactly, so numbers keep the form in which they were written.


def parse(text):
    return json.loads(text, parse_float=decimal.Decimal)


def dump(value):
    return json.dumps(value, default=float, ensure_ascii=False)


def equal(one, other):
    """JSON equality: 1, 1.0 and true are three values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return str(one) == str(other)


def words(text):
    return re.findall(r"\w+|\W", text)


def matches(values, value):
    """Returns whether a value is equal to the others, except where they differ among themselves."""
    if any(type(other) is not type(value) for other in values):
        return len({type(other) for other in values}) > 1
    if all(equal(values[0], other) for other in values):
        return equal(values[0], value)
    if isinstance(value, dict):
        common = set.intersection(*(set(other) for other in values))
        fixed = all(other.keys() == values[0].keys() for other in values)
        return (value.keys() == common if fixed else value.keys() >= common) and all(
            matches([other[key] for other in values], value[key]) for key in common)
    if isinstance(value, list):
        if len({len(other) for other in values}) > 1:
            return True
        return len(value) == len(values[0]) and all(map(matches, map(list, zip(*values)), value))
    if isinstance(value, str):
        split = [words(other) for other in values]
        if len({len(other) for other in split}) > 1:
            return True
        own = words(value)
        return len(own) == len(split[0]) and all(
            len(set(column)) > 1 or column[0] == word for column, word in zip(zip(*split), own))
    return True


# Processes.


class Client:
    """An MCP client of a program, on its stdin and stdout."""

    def __init__(self, command, env, cwd):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env, cwd=cwd, start_new_session=True)
        self.messages, self.last_id, self.hello = queue.Queue(), 0, None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = parse(line)
            except ValueError:
                continue
            if isinstance(message, dict) and "method" in message and "id" in message:
                self.write({"jsonrpc": "2.0", "id": message["id"], "result": {}} if message["method"] == "ping" else {
                    "jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "not offered"}})
            self.messages.put(message)
        self.messages.put(None)

    def write(self, message):
        try:
            self.process.stdin.write(dump(message).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def request(self, method, params, timeout=PROXY_TIMEOUT_S):
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
        answer = self.request("initialize", {"protocolVersion": REVISION, "capabilities": {},
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
        for directory in ("files/folder", "home", "proxy", "run"):
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
        return {"HOME": str(self.base / "home"), **self.fill(self.entry.get("env", {}))}

    def direct(self):
        """Starts the server itself."""
        return Client([self.install(), *self.fill(self.entry.get("args", []))],
                      {**self.environment(), **self.own_environment()}, self.files).initialize()

    def proxied(self, surface, launcher=False, share="client"):
        """Starts dynamic-mcp with the server, and waits until that is connected."""
        command = self.launch if launcher else [self.install()]
        entry = {"command": command, "args": self.fill(self.entry.get("args", [])), "env": self.own_environment(),
                 "cwd": str(self.files), "share": share, "lazy_startup": "eager",
                 "launcher": "direct" if launcher else "keep"}
        config = self.base / f"{share}-{launcher}.json"
        config.write_text(json.dumps({"mcpServers": {GROUP: entry}}))
        client = Client([self.program, "--config", str(config), "--surface", surface], self.environment(),
                        self.base).initialize()
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            status = client.request("tools/call", {"name": "get_status", "arguments": {}})
            client.group = status["result"]["structuredContent"]["groups"][0] if status else {}
            if client.group.get("state") == "connected":
                return client
            time.sleep(0.2)
        client.close()
        raise Failed(f"not connected: {client.group.get('error')}")


def path():
    """PATH with the launchers."""
    return f"{TARGET / 'uv-bin/bin'}:{os.environ['PATH']}"


def gone(pid):
    """Waits until a process has ended: a shared one outlives its sessions."""
    deadline = time.monotonic() + 15
    while pid and Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)


# Arguments.


class Generator:
    """Generates arguments by the schema of a tool. The same seed gives the same arguments."""

    def __init__(self, schema, files, seed):
        self.root, self.files, self.random = schema, files, random.Random(seed)

    def resolve(self, schema):
        for _ in range(20):
            if not isinstance(schema, dict):
                return {}
            if str(schema.get("$ref", "")).startswith("#/"):
                target = self.root
                for part in schema["$ref"][2:].split("/"):
                    target = target.get(part, {}) if isinstance(target, dict) else {}
                schema = target
            elif options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
                options = [option for option in options if option != {"type": "null"}] or options
                schema = {**{key: schema[key] for key in ("description",) if key in schema}, **self.resolve(options[0])}
            else:
                return schema
        return {}

    def kind(self, schema):
        schema = self.resolve(schema)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        return next((each for each in kind if each != "null"), "null") if isinstance(kind, list) else kind

    def value(self, schema, name="", depth=0):
        schema = self.resolve(schema)
        for key in ("const", "default"):
            if schema.get(key) not in (None, ""):
                return schema[key]
        if schema.get("enum"):
            return self.random.choice(schema["enum"])
        kind = self.kind(schema)
        if kind == "object":
            return self.members(schema, False, depth + 1)
        if kind == "array":
            count = 0 if depth > 4 else max(1, schema.get("minItems", 1))
            return [self.value(schema.get("items", {}), name, depth + 1) for _ in range(min(count, 10))]
        if kind in ("integer", "number"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            number = int(low) + self.random.randint(1, 5) if not isinstance(low, bool) else 1
            return min(number, int(schema.get("maximum", number)))
        return {"boolean": self.random.random() < 0.5, "null": None}[kind] if kind in ("boolean", "null") \
            else self.text(schema, name)

    def text(self, schema, name):
        form, name = schema.get("format", ""), name.lower()
        if form == "date" or name.endswith("date"):
            return "2024-02-11"
        if form == "date-time":
            return "2024-02-11T10:00:00Z"
        if form == "email":
            return "a@example.com"
        if form == "uri" or re.search(r"uri|url", name):
            return "http://127.0.0.1:1/page"
        if re.search(r"path|file|dir", name):
            return f"{self.files}/{self.random.choice(['a.txt', 'folder', 'folder/b.json'])}"
        text = self.random.choice(["one", "two", "three", "alpha beta"])
        return text.ljust(int(schema.get("minLength", 0)), "x")[:int(schema.get("maxLength", 100))]

    def members(self, schema, all_of_them, depth=0):
        properties, required = schema.get("properties", {}), schema.get("required", [])
        return {name: self.value(properties.get(name, {}), name, depth) for name in [*properties]
                if name in required or all_of_them}

    def objects(self):
        """Yields (what it is, arguments)."""
        root = self.resolve(self.root)
        properties, required = root.get("properties", {}), root.get("required", [])
        least, most = self.members(root, False), self.members(root, True)
        yield "valid", least
        if most != least:
            yield "valid", most
        yield "additional", {**least, "somethingElse": "x"}
        for name in [*required][:2]:
            yield "missing", {key: value for key, value in least.items() if key != name}
        for name, schema in [*properties.items()][:6]:
            for what, value in self.unfit(self.kind(schema), self.resolve(schema), most[name]):
                yield what, {**least, name: value}

    def unfit(self, kind, schema, value):
        """Yields values of one property that do not fit, or fit in a server's own way."""
        if kind == "boolean":
            yield from (("scalar", each) for each in self.random.sample([0, 1, "yes", "on", "true", "False"], 3))
        if schema.get("enum") and isinstance(value, str):
            yield "case", value.swapcase()
        elif kind == "string":
            yield "scalar", self.random.choice([7, 2.5, True])
        if kind in ("integer", "number"):
            yield "scalar", self.random.choice([str(value), f"{value}.0", float(value)])
            yield "scalar", "many"
        if kind in ("object", "array"):
            yield "json", json.dumps(value, default=float)
        if kind == "array" and value:
            yield "json", value[0]
        yield ("container", {"x": 1}) if kind not in ("object", "array") else ("container", "x")
        if self.random.random() < 0.5:
            yield "null", None


# The plan of a session, and the ways to carry it out.

Step = collections.namedtuple("Step", "method params kind", defaults=[""])


def arguments_of(step):
    return step.params.get("arguments", {})


class Session:
    """What one client of one way does: it translates each step for its way, and the answer back."""

    def __init__(self, way, client, names=None):
        self.way, self.client, self.names = way, client, names or {}

    def ask(self, step, timeout=PROXY_TIMEOUT_S):
        method, params = step.method, step.params
        if self.way == "direct":
            return self.client.request(method, params, timeout)
        if method == "tools/call" and self.way == "meta":
            params = {"name": "call_dynamic_tool", "arguments": {
                "group": GROUP, "name": params["name"], "args": arguments_of(step)}}
        elif method == "tools/call":
            params = {**params, "name": self.names.get(params["name"], f"{GROUP}__{params['name']}")}
        elif self.way == "meta":
            params = {**params, "group": GROUP}
        elif method == "prompts/get":
            params = {**params, "name": f"{GROUP}__{params['name']}"}
        return self.client.request(method, params)

    def list(self, kind, method):
        """Returns a list, with the server's own names."""
        if self.way == "meta":
            return self.client.list_all(method, kind, group=GROUP)
        found = self.client.list_all(method, kind)
        if self.way == "flat" and kind == "prompts" and isinstance(found, list):
            prefix = f"{GROUP}__"
            found = [{**each, "name": each["name"].removeprefix(prefix)} for each in found if each["name"] != "status"]
        return found

    def tools(self, names):
        """Returns the definitions, by the server's own names, and remembers the exposed ones."""
        if self.way == "direct":
            return self.client.list_all("tools/list", "tools")
        params = {"lazy": False} if self.way == "meta" else {}
        listed = [tool for tool in self.client.list_all("tools/list", "tools", **params) if "__" in tool["name"]]
        if len(listed) == len(names):
            self.names = {name: tool["name"] for name, tool in zip(names, listed)}
        return [{**tool, "name": name} for name, tool in zip(names, listed)] if len(listed) == len(names) else listed


LISTS = [("resources", "resources/list", "resources"), ("resourceTemplates", "resources/templates/list", "resources"),
         ("prompts", "prompts/list", "prompts")]


class Comparison:
    """All sessions of one server, and what they showed."""

    def __init__(self, server):
        self.server, self.entry = server, server.entry
        self.differences, self.decided = [], collections.Counter()
        self.direct, self.lists, self.tools = [], [], []
        self.steps, self.taken, self.refused, self.without_launcher = [], 0, 0, None
        self.ran = 0

    # The direct sessions.

    def first_direct(self):
        """Makes the plan while it is carried out: what ends the server or takes too long is left out."""
        session, answers = self.start_direct()
        planned, started, slow = self.plan(session), time.monotonic(), set()
        for step in planned:
            name = step.params.get("name")
            if (step.kind and time.monotonic() - started > GENERATED_S) or name in slow:
                continue
            answer = session.ask(step, CALL_TIMEOUT_S)
            if answer is None:
                slow.add(name)
                session.client.close()
                session.client = self.server.direct()
                for each in [each for each in self.steps if each.params.get("name") == name]:
                    answers.pop(self.steps.index(each))
                    self.steps.remove(each)
                continue
            self.steps.append(step)
            answers.append(answer)
        session.client.close()
        self.direct.append(answers)

    def start_direct(self):
        self.server.fresh()
        session = Session("direct", self.server.direct())
        self.hello = session.client.hello
        self.tools.append(session.tools([]))
        self.lists.append({kind: session.list(kind, method) for kind, method, _ in self.offered()})
        return session, []

    def again_direct(self):
        """Repeats the direct session, to see what differs from run to run."""
        session, answers = self.start_direct()
        for step in self.steps:
            answers.append(session.ask(step, PROXY_TIMEOUT_S))
        session.client.close()
        self.direct.append(answers)

    def offered(self):
        return [each for each in LISTS if each[2] in self.hello["capabilities"]]

    def callable(self):
        skipped = self.entry.get("skip", [])
        return [tool for tool in self.tools[0] if not NOT_CALLED.search(tool["name"]) and tool["name"] not in skipped]

    def plan(self, session):
        """Reads and gets, calls by hand, calls by the schema, and what does not exist; then the generated calls."""
        lists = self.lists[0]
        for resource in (lists.get("resources") or [])[:3]:
            yield Step("resources/read", {"uri": resource["uri"]})
        if "resources" in self.hello["capabilities"]:
            yield Step("resources/read", {"uri": "nowhere://nothing"})
        for prompt in (lists.get("prompts") or [])[:3]:
            given = {each["name"]: "one" for each in prompt.get("arguments") or [] if each.get("required")}
            yield Step("prompts/get", {"name": prompt["name"], "arguments": given})
            yield Step("prompts/get", {"name": prompt["name"], "arguments": {}})
        for name, arguments in self.server.fill(self.entry.get("calls", [])):
            yield Step("tools/call", {"name": name, "arguments": arguments})
        generated = []
        for tool in self.callable()[:MAX_TOOLS_GENERATED]:
            generator = Generator(tool["inputSchema"], self.server.files, f"{SEED}{tool['name']}")
            generated.append([Step("tools/call", {"name": tool["name"], "arguments": arguments}, kind)
                              for kind, arguments in generator.objects()])
        for each in generated[:12]:
            yield each[0]._replace(kind="")
        for each in generated[:3]:
            yield from (step._replace(kind="") for step in [*each[1:]][-2:])
        yield Step("tools/call", {"name": "no_such_tool", "arguments": {}})
        yield Step("no/such_method", {})
        for round_of in range(max(map(len, generated), default=0)):
            yield from (each[round_of] for each in generated if round_of < len(each))

    # The sessions through dynamic-mcp.

    def compare_way(self, way, session, generated):
        """Carries out the plan in one way, and compares everything."""
        tools = session.tools([tool["name"] for tool in self.tools[0]])
        self.compare_definitions(way, tools)
        for kind, method, _ in self.offered():
            self.compare_value(f"{way} {method}", [each[kind] for each in self.lists], session.list(kind, method))
        todo = [(index, step) for index, step in enumerate(self.steps) if generated or not step.kind]
        answers = [(index, step, session.ask(step)) for index, step in todo]
        self.ran += len(answers)
        suspicious = [each for each in answers if not self.judge(way, session.way, *each, dry=True)]
        return suspicious, answers

    def compare_value(self, where, direct, value):
        if not matches(direct, value):
            self.differences.append(f"{where}: {dump(direct[-1])[:700]} became {dump(value)[:700]}")

    def compare_definitions(self, way, tools):
        """Compares the definitions as listed. A type that was added is decided."""
        expected = copy.deepcopy(self.tools)
        for tool in [tool for listed in expected for tool in listed if "type" not in tool["inputSchema"]]:
            tool["inputSchema"]["type"] = "object"
            self.decided["no type"] += 1
        if len(tools) != len(expected[0]):
            missing = {tool["name"] for tool in expected[0]} - {tool["name"].removeprefix(f"{GROUP}__") for tool in tools}
            self.differences.append(f"{way} tools/list: {len(expected[0])} tools became {len(tools)}; missing: {missing}")
            return
        for index, tool in enumerate(tools):
            self.compare_value(f"{way} definition of {tool['name']}", [each[index] for each in expected], tool)

    def compare_descriptions(self, session):
        """tools/describe_batch and get_dynamic_tools show every definition as the server gave it; get_status names
        the server, and get_dynamic_tools has its instructions."""
        exposed = session.names
        for index, tool in enumerate(self.tools[0]):
            answer = session.client.request("tools/describe", {"name": exposed.get(tool["name"], tool["name"])})
            found = (answer or {}).get("result", {}).get("tool")
            found = {**found, "name": tool["name"]} if found else answer
            self.compare_value(f"tools/describe {tool['name']}", [each[index] for each in self.tools], found)
        answer = session.client.request("tools/call", {"name": "get_dynamic_tools", "arguments": {
            "group": GROUP, "detail": "full"}})
        lines = answer["result"]["content"][0]["text"].splitlines()
        for line in lines:
            if line.startswith("{"):
                tool = parse(line)
                direct = [[each for each in listed if each["name"] == tool["name"]] for listed in self.tools]
                self.compare_value(f"get_dynamic_tools {tool['name']}", direct, [tool])
        own = self.hello.get("instructions") or ""
        if own.strip() and len(own) < 10_000:
            shown = {line.removeprefix(">").strip() for line in lines}
            if lost := [line for line in own.splitlines() if line.strip() and line.strip() not in shown]:
                self.differences.append(f"instructions: {dump(lost[:3])} not in the answer of get_dynamic_tools")
        info, group = self.hello["serverInfo"], session.client.group
        seen = [group["server"], group["version"], group["protocolVersion"]]
        if seen[0] not in (info.get("name"), info.get("title")) or seen[1:] != [info.get("version"),
                                                                               self.hello["protocolVersion"]]:
            self.differences.append(f"get_status: {dump(self.hello)[:300]} became {dump(seen)}")

    def judge(self, way, surface, index, step, answer, dry=False):
        """Returns whether an answer is equal, or differs by a decision. Counts it unless `dry`."""
        direct = [each[index] for each in self.direct if len(each) > index]
        verdict = self.verdict(surface, step, direct, answer)
        if not dry:
            if verdict in DECIDED:
                self.decided[verdict] += 1
            elif verdict != "equal":
                self.differences.append(f"{way} {step.method} {dump(step.params)} ({step.kind or 'session'}): {verdict}: "
                                        f"{dump(direct[-1])[:700]} became {dump(answer)[:700]}")
        return verdict == "equal" or verdict in DECIDED

    def verdict(self, surface, step, direct, answer):
        if matches(direct, answer):
            return "equal"
        if answer is None:
            return "no answer"
        if step.method == "no/such_method":
            return "unknown method" if "error" in answer else "other"
        if step.params.get("name") == "no_such_tool":
            return "unknown tool" if failed(answer) else "other"
        if surface != "meta" or step.method != "tools/call":
            return "other"
        if failed(answer) and matches(direct, without_finding(answer)):
            return "finding"
        text = dump(answer)
        ours = "so it was not called" in text
        fits = fits_roughly(self.schema(step), arguments_of(step))
        if ours and not fits:
            return "refused"
        if not failed(direct[-1]) and failed(answer):
            return "refused although the server takes it" if ours else "fails"
        if step.kind in ("scalar", "json", "null"):
            return "repaired"
        return "other"

    def schema(self, step):
        return next((tool["inputSchema"] for tool in self.tools[0] if tool["name"] == step.params["name"]), {})

    def alone(self, index, step):
        """Makes one call in sessions of its own, directly and by `meta`, and returns whether it is equal then."""
        direct = []
        for _ in range(2):
            self.server.fresh()
            client = self.server.direct()
            direct.append(Session("direct", client).ask(step))
            client.close()
        self.server.fresh()
        client = self.server.proxied("meta")
        answer = Session("meta", client).ask(step)
        client.close()
        return self.verdict("meta", step, direct, answer) in ("equal", *DECIDED)

    def settle(self, results):
        """Judges the answers of all ways. What looks different is compared with more direct sessions first, and in
        `meta`, where other arguments may have been sent before, alone."""
        for _ in range(2):
            if any(suspicious for _, _, (suspicious, _) in results):
                time.sleep(1)
                self.again_direct()
        tried = 0
        for way, surface, (_, answers) in results:
            for index, step, answer in answers:
                if not self.judge(way, surface, index, step, answer, dry=True) and surface == "meta" and tried < 12:
                    tried += 1
                    if self.alone(index, step):
                        continue
                self.judge(way, surface, index, step, answer)
                if step.kind and surface == "meta" and not failed(self.direct[0][index]) and failed(answer):
                    self.refused += 1
        self.taken = sum(1 for step, answer in zip(self.steps, self.direct[0]) if step.kind and not failed(answer))

    def run(self):
        self.first_direct()
        self.again_direct()
        results = []
        for way, surface, launcher in (("meta", "meta", False), ("flat", "flat", False), ("launcher", "flat", True)):
            self.server.fresh()
            if launcher:
                self.server.proxied(surface, launcher).close()
            client = self.server.proxied(surface, launcher)
            session = Session(surface, client)
            results.append((way, surface, self.compare_way(way, session, generated=not launcher)))
            if way == "meta":
                self.compare_descriptions(session)
            if launcher:
                command = Path(f"/proc/{client.group['pid']}/cmdline").read_bytes()
                self.without_launcher = b"npm exec" not in command and b"uvx" not in command.split(b"\0")[0]
            client.close()
            gone(client.group["pid"])
        results += self.run_shared()
        self.settle(results)
        return self

    def run_shared(self):
        """Two clients at once at one process. The second one only reads if calls change what others see."""
        self.server.fresh()
        clients = [self.server.proxied(surface, share="user") for surface in ("flat", "meta")]
        if len({client.group["pid"] for client in clients}) > 1 or not clients[0].group["shared"]:
            self.differences.append("shared: two processes")
        sessions = [Session("flat", clients[0]), Session("meta", clients[1])]
        steps = self.steps
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(self.compare_way, "shared", sessions[0], False)
            if self.entry.get("stateful"):
                names = [tool["name"] for tool in self.tools[0]]
                second = pool.submit(lambda: self.compare_definitions("shared, second", sessions[1].tools(names)))
            else:
                second = pool.submit(self.compare_way, "shared, second", sessions[1], False)
            found = [("shared", "flat", first.result())]
            if second.result():
                found.append(("shared, second", "meta", second.result()))
        for client in clients:
            client.close()
        gone(clients[0].group["pid"])
        assert steps is self.steps
        return found


def failed(answer):
    return answer is None or "error" in answer or answer["result"].get("isError") is True


def without_finding(answer):
    """An error without our finding: the last text block, or the data of the error."""
    answer = copy.deepcopy(answer)
    if "error" in answer:
        answer["error"].pop("data", None)
    elif answer["result"].get("content"):
        answer["result"]["content"].pop()
    return answer


def fits_roughly(schema, arguments):
    """Returns False if an argument is missing, or is an object or array in place of a scalar or the reverse."""
    generator = Generator(schema, "", 0)

    def fits(schema, value):
        schema = generator.resolve(schema)
        kind, container = schema.get("type"), isinstance(value, (dict, list))
        if isinstance(value, dict) and (kind == "object" or "properties" in schema):
            return all(name in value for name in schema.get("required", [])) and all(
                fits(each, value[name]) for name, each in schema.get("properties", {}).items() if name in value)
        if isinstance(value, list) and kind == "array":
            return all(fits(schema.get("items", {}), each) for each in value)
        return not (isinstance(kind, str) and value is not None and container != (kind in ("object", "array")))

    return fits({**schema, "type": "object"}, arguments)


# The run.


def compare(entry, program):
    """Compares one server, and returns its comparison or the reason why there is none."""
    server = Server(entry, program)
    try:
        return server, Comparison(server).run()
    except (Failed, OSError, subprocess.SubprocessError, KeyError, TypeError, AttributeError) as error:
        return server, f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(server.base, ignore_errors=True)


def line(server, found):
    if isinstance(found, str):
        return f"{server.name} {server.version}: not compared: {found}"
    steps = collections.Counter(bool(step.kind) for step in found.steps)
    direct = "" if found.without_launcher else ", the launcher stays"
    return (f"{server.name} {server.version}: {len(found.tools[0])} tools, {steps[False]} requests, "
            f"{steps[True]} generated ({found.taken} taken directly, {found.refused} of them refused through us), "
            f"{len(found.differences)} differences{direct}")


def markdown(results):
    rows = ["| server | version | tools | requests | generated calls | taken directly | of these refused | differences |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for server, found in results:
        steps = collections.Counter(bool(step.kind) for step in found.steps)
        rows.append(f"| `{server.name}` | {server.version} | {len(found.tools[0])} | {steps[False]} | {steps[True]} | "
                    f"{found.taken} | {found.refused} | {len(found.differences)} |")
    return "\n".join(rows)


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


def enter_namespaces():
    """Runs this script again without network, other processes and a file system that can be written."""
    script = (f"ip link set lo up; mount --bind '{TARGET}' '{TARGET}' && mount -o remount,bind,ro / && "
              "mount -t tmpfs tmpfs /tmp && exec \"$0\" \"$@\"")
    command = ["unshare", "--map-root-user", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh",
               "-c", script, sys.executable, __file__, "--inside", *sys.argv[1:]]
    sys.exit(subprocess.run(command).returncode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", action="append", help="only this server; may be repeated")
    parser.add_argument("--program", default=TARGET.parent / "release/dynamic-mcp", type=Path)
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs page")
    parser.add_argument("--jobs", type=int, default=2, help="how many servers are compared at a time")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    entries = [entry for entry in json.loads(SERVERS.read_text()) if not options.only or entry["name"] in options.only]
    if not options.inside:
        install(entries)
        enter_namespaces()
    program = str(options.program.resolve())
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for server, found in pool.map(lambda entry: compare(entry, program), entries):
            results.append((server, found))
            print(line(server, found), flush=True)
            for difference in [] if isinstance(found, str) else found.differences:
                print(f"  {difference}", flush=True)
    report(results, options.markdown)


def report(results, as_markdown):
    """Prints the summary, and ends with 1 if there is a difference that is not decided."""
    compared = [(server, found) for server, found in results if not isinstance(found, str)]
    decided = sum((found.decided for _, found in compared), collections.Counter())
    print(f"\n{len(compared)} servers compared, {len(results) - len(compared)} not; "
          f"{sum(len(found.tools[0]) for _, found in compared)} tools; "
          f"{sum(found.ran for _, found in compared)} requests through dynamic-mcp")
    for name, count in decided.most_common():
        print(f"decided: {count} times: {DECIDED[name]}")
    if as_markdown:
        print("\n" + markdown(compared))
    sys.exit(len(compared) < len(results) or any(found.differences for _, found in compared))


if __name__ == "__main__":
    main()
