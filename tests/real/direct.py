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

In these sessions the server is connected all the time, and the client has no roots. In `lazy` it has, and each of a few
requests is the first one after an idle close. Directly, that is the first request of a session whose server has had time
to learn the roots. A server that asks for roots has this session without its arguments, too.

The differences that dynamic-mcp makes on purpose are in DECIDED. Any other one is printed, and the exit code is then 1.
"""

import argparse
import collections
import concurrent.futures
import copy
import json
import re
import sys
import time
from pathlib import Path

from direct_arguments import Generator, fits_roughly
from direct_client import ANSWER_TIMEOUT_S, DECODER, GROUP, TARGET, Server, dump, gone, install, run_in_namespaces

SERVERS = Path(__file__).with_name("direct_servers.json")
SEED = 7
# A call that takes longer directly is left out.
CALL_TIMEOUT_S = 8
# No more generated calls are planned after this time in the first direct session of a server.
GENERATED_S = 40
MAX_TOOLS_GENERATED = 30
# How long a server that was started directly gets to learn the roots.
ROOTS_S = 0.5
# Tools that end processes, delete what others made, or wait for a person or a browser. They are listed and described,
# not called.
NOT_CALLED = re.compile(r"kill|terminate|shutdown|restart|cleanup|install|feedback|sleep|wait|subscribe", re.I)

DECIDED = {
    "finding": "the server answers with an error, and our finding about the arguments follows it",
    "repaired": "arguments that do not fit are repaired before the server gets them",
    "refused": "a required argument is missing, or an object or array stands for a scalar or the reverse: not called",
    "no type": 'a definition without "type" in its inputSchema gets "type": "object" in lists',
    "task": "a tool that only runs as a task is run as one, and its result is awaited",
    "private": "a server that changes its lists during a request is not shared",
    "unknown tool": "the error for a tool that does not exist is our own",
    "unknown method": "the error for a method that MCP does not have is our own",
}


# Values: compared exactly, so numbers keep the form in which they were written.


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
        own = words(value)
        if all(sorted(other) == sorted(own) for other in split) or len({len(other) for other in split}) > 1:
            return True
        return len(own) == len(split[0]) and all(
            len(set(column)) > 1 or column[0] == word for column, word in zip(zip(*split), own))
    return True


Step = collections.namedtuple("Step", "method params kind generated", defaults=["", False])


def arguments_of(step):
    return step.params.get("arguments", {})


class Session:
    """What one client of one way does: it translates each step for its way, and the answer back."""

    def __init__(self, way, client, names=None):
        self.way, self.client, self.names = way, client, names or {}

    def ask(self, step, timeout=ANSWER_TIMEOUT_S):
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
            if (step.generated and time.monotonic() - started > GENERATED_S) or name in slow:
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
            answers.append(session.ask(step, ANSWER_TIMEOUT_S))
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
        for resource in some(lists, "resources"):
            yield Step("resources/read", {"uri": resource["uri"]})
        if "resources" in self.hello["capabilities"]:
            yield Step("resources/read", {"uri": "nowhere://nothing"})
        for prompt in some(lists, "prompts"):
            given = {each["name"]: "one" for each in prompt.get("arguments") or [] if each.get("required")}
            yield Step("prompts/get", {"name": prompt["name"], "arguments": given})
            yield Step("prompts/get", {"name": prompt["name"], "arguments": {}})
        for name, arguments in self.server.fill(self.entry.get("calls", [])):
            yield Step("tools/call", {"name": name, "arguments": arguments})
        generated = []
        for tool in self.callable()[:MAX_TOOLS_GENERATED]:
            generator = Generator(tool["inputSchema"], self.server.files, f"{SEED}{tool['name']}")
            generated.append([Step("tools/call", {"name": tool["name"], "arguments": arguments}, kind, True)
                              for kind, arguments in generator.objects()])
        for each in generated[:12]:
            yield each[0]._replace(generated=False)
        for each in generated[:3]:
            yield from (step._replace(generated=False) for step in [*each[1:]][-2:])
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
            if isinstance(self.lists[0][kind], list) or way == "meta":
                self.compare_value(f"{way} {method}", [each[kind] for each in self.lists], session.list(kind, method))
        todo = [(index, step) for index, step in enumerate(self.steps) if generated or not step.generated]
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
        text = answer["result"]["content"][0]["text"]
        for tool in definitions_in(text):
            direct = [[each for each in listed if each["name"] == tool["name"]] for listed in self.tools]
            self.compare_value(f"get_dynamic_tools {tool['name']}", direct, [tool])
        own = self.hello.get("instructions") or ""
        if own.strip() and len(own) < 10_000:
            shown = {line.removeprefix(">").strip() for line in text.splitlines()}
            if lost := [line for line in own.splitlines() if line.strip() and line.strip() not in shown]:
                self.differences.append(f"instructions: {dump(lost[:3])} not in the answer of get_dynamic_tools")
        info, group = self.hello["serverInfo"], session.client.group
        seen = [group["server"], group["version"], group["protocolVersion"]]
        expected = [info.get("version") or None, self.hello["protocolVersion"]]
        if seen[0] not in (info.get("name"), info.get("title")) or seen[1:] != expected:
            self.differences.append(f"get_status: {dump(self.hello)[:300]} became {dump(seen)}")

    def judge(self, way, surface, index, step, answer, dry=False):
        """Returns whether an answer is equal, or differs by a decision. Counts it unless `dry`."""
        direct = [each[index] for each in self.direct if len(each) > index]
        verdict = self.verdict(surface, step, direct, answer)
        if not dry:
            self.count(way, step, direct, verdict, answer)
        return verdict == "equal" or verdict in DECIDED

    def count(self, way, step, direct, verdict, answer):
        if verdict in DECIDED:
            self.decided[verdict] += 1
        elif verdict != "equal":
            self.differences.append(f"{way} {step.method} {dump(step.params)} ({step.kind or 'by hand'}): {verdict}: "
                                    f"{dump(direct[-1])[:700]} became {dump(answer)[:700]}")

    def verdict(self, surface, step, direct, answer):
        if matches(direct, answer):
            return "equal"
        if answer is None:
            return "no answer"
        if step.method == "no/such_method":
            return "unknown method" if "error" in answer else "other"
        if step.params.get("name") == "no_such_tool":
            return "unknown tool" if failed(answer) else "other"
        if self.tool(step).get("execution", {}).get("taskSupport") == "required":
            return "task"
        if surface != "meta" or step.method != "tools/call":
            return "other"
        if failed(answer) and matches(direct, without_finding(answer)):
            return "finding"
        text = dump(answer)
        ours = "so it was not called" in text
        fits = fits_roughly(self.tool(step)["inputSchema"], arguments_of(step))
        if ours and not fits:
            return "refused"
        if not failed(direct[-1]) and failed(answer):
            return "refused although the server takes it" if ours else "fails"
        if step.kind in ("scalar", "json", "null"):
            return "repaired"
        return "other"

    def tool(self, step):
        return next((tool for tool in self.tools[0] if tool["name"] == step.params.get("name")), {"inputSchema": {}})

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
        for turn in range(5):
            suspicious = [each for way, surface, (found, _) in results if turn < 2 or surface != "meta"
                          for each in found if not self.judge(way, surface, *each, dry=True)]
            if not suspicious:
                break
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
                if step.generated and surface == "meta" and not failed(self.direct[0][index]) and failed(answer):
                    self.refused += 1
        self.taken = sum(1 for step, answer in zip(self.steps, self.direct[0]) if step.generated and not failed(answer))

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
        self.run_lazy()
        return self

    def run_lazy(self):
        """Compares the first requests after a start, for a client with roots."""
        steps = [step for step in self.steps if not step.generated and step.params.get("name") != "no_such_tool"]
        steps = [step for method, most in (("tools/call", 2), ("resources/read", 1), ("prompts/get", 1))
                 for step in [step for step in steps if step.method == method][:most]]
        arguments = self.server.arguments()
        asks = self.compare_lazy("lazy", steps, arguments)
        if asks and arguments:
            self.compare_lazy("lazy without arguments", steps, [])

    def compare_lazy(self, way, steps, args):
        """Returns whether the server asked for roots."""
        direct = [self.first_answers(steps, args) for _ in range(2)]
        self.server.fresh()
        client = self.server.lazy(args)
        for index, step in enumerate(steps):
            self.server.wait_for("discovered", client)
            answer = Session("meta", client).ask(step)
            self.ran += 1
            self.count(way, step, [each[index] for each in direct], self.verdict(
                "meta", step, [each[index] for each in direct], answer), answer)
        client.close()
        return client.was_asked_for_roots

    def first_answers(self, steps, args):
        """Asks each step of a server that was started for it."""
        self.server.fresh()
        answers = []
        for step in steps:
            client = self.server.direct(args, self.server.roots())
            client.list_all("tools/list", "tools")
            time.sleep(ROOTS_S)
            answers.append(Session("direct", client).ask(step))
            client.close()
        return answers

    def run_shared(self):
        """Two clients at once at one process. The second one only reads if calls change what others see."""
        self.server.fresh()
        clients = [self.server.proxied(surface, share="user") for surface in ("flat", "meta")]
        if not all(client.group["shared"] for client in clients):
            log = next(self.server.base.glob("proxy/.local/state/dynamic-mcp/log/*.log")).read_text()
            if "the server is not shareable" in log:
                self.decided["private"] += 1
            else:
                self.differences.append("shared: not one process")
        sessions = [Session("flat", clients[0]), Session("meta", clients[1])]
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
        return found


def some(lists, kind):
    """The first elements of a list. In place of a list there may be an error."""
    return lists[kind][:3] if isinstance(lists.get(kind), list) else []


def definitions_in(text):
    """Yields the definitions in an answer of get_dynamic_tools. Long ones have line breaks; what is no JSON is text."""
    for start in re.finditer(r'^\{"', text, re.MULTILINE):
        try:
            value, _ = DECODER.raw_decode(text, start.start())
        except ValueError:
            continue
        if "name" in value:
            yield value


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


def compare(entry, program):
    """Compares one server, and returns its comparison or the reason why there is none."""
    server = Server(entry, program)
    try:
        return server, Comparison(server).run()
    except Exception as error:  # One server must not end the run.
        return server, f"{type(error).__name__}: {error} (line {error.__traceback__.tb_next.tb_lineno})"
    finally:
        server.clean()


def line(server, found):
    if isinstance(found, str):
        return f"{server.name} {server.version}: not compared: {found}"
    steps = collections.Counter(step.generated for step in found.steps)
    direct = "" if found.without_launcher else ", the launcher stays"
    return (f"{server.name} {server.version}: {len(found.tools[0])} tools, {steps[False]} requests, "
            f"{steps[True]} generated ({found.taken} taken directly, {found.refused} of them refused through us), "
            f"{len(found.differences)} differences{direct}")


def markdown(results):
    rows = ["| server | version | tools | requests | generated calls | taken directly | of these refused | differences |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for server, found in results:
        steps = collections.Counter(step.generated for step in found.steps)
        rows.append(f"| `{server.name}` | {server.version} | {len(found.tools[0])} | {steps[False]} | {steps[True]} | "
                    f"{found.taken} | {found.refused} | {len(found.differences)} |")
    return "\n".join(rows)


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
        sys.exit(run_in_namespaces())
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
