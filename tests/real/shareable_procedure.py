"""The procedure that finds out whether several clients can share one process of a server.

A finding is a sentence that says why they cannot. `check` returns the findings of the first step that has any: the steps
after it would only repeat them. No finding means that no step saw a call, list, resource or prompt depend on what another
session did. docs/sharing.md says what the procedure cannot see.
"""

import json
import random
import time

from shareable_client import Ended, NoAnswer
from shareable_requests import Request, difference, failed, generated_calls, normal
from shareable_traces import Traces

SEED = 14
# A client's name and capabilities. Each process is started by another of them.
CLIENTS = [
    ("shareable", {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}),
    ("claude-code", {"roots": {}}),
    ("Visual Studio Code", {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}),
    ("cursor-vscode", {}),
    ("codex-mcp-client", {"elicitation": {}}),
]
LISTS = {"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
         "prompts/list": "prompts"}
MAX_REQUESTS = 60
MAX_RESOURCES = 10
MAX_PROMPTS = 10
GENERATED_ORDERS = 3
GENERATED_TIMEOUT_S = 5
CONCURRENT_ROUNDS = 4
CONCURRENT_CALLS = 60
MANY_CALLS = 400
MANY_S = 40
# A call that takes this long alone must not hold up another one.
SLOW_S = 0.4
# How long a server may take to ask its client something after a call.
SILENCE_S = 0.3
MAX_S = 1200


class Incomplete(Exception):
    """The server cannot be tested completely."""


class Found(Exception):
    """Findings: the server is private."""

    def __init__(self, *findings):
        super().__init__("; ".join(findings))


class Procedure:
    """One server under test. `start(name, capabilities)` starts a process of it and returns its Client, which has done
    its handshake. `web` logs the requests that the server makes to the web server, if there is one."""

    def __init__(self, start, calls, schemas_files, places, install_places, web=None, log=lambda *_: None):
        self.start_process, self.calls, self.files, self.web, self.log = start, calls, schemas_files, web, log
        self.traces = Traces(places, install_places, web.port if web else None)
        self.random = random.Random(SEED)
        self.surface, self.known, self.unknown, self.seconds, self.starts = None, {}, {}, {}, 0
        self.counts = {"processes": 0, "calls_in_turn": 0, "calls_at_once": 0}
        self.deadline = time.monotonic() + MAX_S
        self.open = []

    # Processes.

    def start(self):
        name, capabilities = CLIENTS[self.starts % len(CLIENTS)]
        self.starts += 1
        self.counts["processes"] += 1
        client = self.start_process(name, capabilities)
        self.open.append(client)
        client.client_name = name
        surface = self.lists(client)
        if self.surface is None:
            self.surface = surface
        elif surface != self.surface:
            raise Found(f"it shows other lists to the client {name!r} or in another process: "
                        + difference(json.dumps(surface, sort_keys=True), json.dumps(self.surface, sort_keys=True)))
        client.traces = self.traces.of(client.process.pid)
        return client

    def finish(self, client):
        """Looks for what the calls left, and ends the process."""
        time.sleep(SILENCE_S)
        self.silent(client)
        if self.lists(client) != self.surface:
            raise Found("its lists differ after calls")
        if left := self.traces.left(client):
            raise Found(*left)
        client.close()
        self.open.remove(client)
        if written := self.traces.written():
            raise Found(*written)

    def close(self):
        for client in self.open:
            client.close()

    def silent(self, client):
        asked = sorted({method for method in client.asked if method != "ping"})
        if asked:
            raise Found(f"it asks its client: {', '.join(asked)}")
        changes = [method for method in client.notified if method.endswith("list_changed")]
        if changes:
            raise Found(f"it sends {changes[0]}")

    def lists(self, client):
        """Everything that a client can list, and what the handshake said."""
        capabilities = client.hello.get("capabilities", {})
        found = {"hello": client.hello}
        for method, key in LISTS.items():
            if method.split("/")[0] in capabilities:
                found[key] = client.list_all(method, key)
        return found

    def listed(self, key):
        """A list of the first process; empty if the server answered with an error."""
        found = self.surface.get(key, [])
        return found if isinstance(found, list) else []

    # Requests and comparisons.

    def ask(self, client, request, timeout=None):
        """Sends a request alone. Returns its answer as text and what it asked the web server, and the answer."""
        if time.monotonic() > self.deadline:
            raise Incomplete(f"it takes more than {MAX_S} s")
        before = self.web.mark() if self.web else 0
        began = time.monotonic()
        try:
            answer = client.request(request.method, request.params, timeout)
        except Ended:
            raise Found(f"its process ends with {request}") from None
        self.counts["calls_in_turn"] += 1
        took = time.monotonic() - began
        self.seconds[id(request)] = min(took, self.seconds.get(id(request), took))
        return (normal(request, answer), self.web.since(before) if self.web else []), answer

    def compare(self, client, index, when):
        """Asks a request again. The answer, and what it asks the web, must be those of a fresh process. They are
        compared when those are known."""
        try:
            got, _ = self.ask(client, self.requests[index])
        except NoAnswer:
            raise Found(f"{self.requests[index]} has no answer {when}") from None
        if index in self.known:
            self.same(index, got, when)
        else:
            self.unknown.setdefault(index, []).append((got, when))

    def same(self, index, got, when):
        request, (text, asked), (known_text, known_asked) = self.requests[index], got, self.known[index]
        if text != known_text:
            raise Found(f"{request} has another result {when}: {difference(text, known_text)}")
        if asked != known_asked:
            raise Found(f"{request} asks the web {when} for {asked}, and for {known_asked} in a fresh process: "
                        "it keeps an answer or a cookie")

    # The steps, in their order.

    def run(self):
        """Raises Found or Incomplete, or returns if all steps are passed."""
        self.handshake()
        oldest = self.once()
        since = time.monotonic()
        self.pairs()
        self.many()
        self.at_once()
        self.slow()
        self.other_arguments()
        self.log("oldest")
        for index in reversed(range(len(self.requests))):
            self.compare(oldest, index, f"{time.monotonic() - since:.0f} s after its last call")
        self.finish(oldest)
        self.after_all()

    def handshake(self):
        """Step 1. Lists everything. Each tool must have a call that succeeds, and two calls if it takes arguments."""
        client = self.start()
        self.tools = {tool["name"]: tool for tool in self.listed("tools")}
        time.sleep(1)
        self.silent(client)
        self.finish(client)
        if not self.tools:
            raise Incomplete("it lists no tools")
        called = {}
        for each in self.calls:
            if each.expect is not None:
                called.setdefault(each.params["name"], []).append(each.params["arguments"])
        if missing := [name for name in self.tools if name not in called]:
            raise Incomplete(f"{len(missing)} of {len(self.tools)} tools were not called: "
                             + ", ".join(missing[:4]) + (", …" if len(missing) > 4 else ""))
        if unknown := set(called) - set(self.tools):
            raise Incomplete(f"it has no tool {', '.join(sorted(unknown))}")
        for name, tool in self.tools.items():
            if tool.get("inputSchema", {}).get("properties") and all(each == called[name][0] for each in called[name]):
                raise Incomplete(f"{name} was called with one set of arguments only")
        self.requests = self.calls + [
            Request("resources/read", {"uri": each["uri"]}) for each in self.listed("resources")[:MAX_RESOURCES]
        ] + [Request("prompts/get", {"name": each["name"], "arguments": {
            argument["name"]: "one" for argument in each.get("arguments") or []}})
            for each in self.listed("prompts")[:MAX_PROMPTS]]
        if len(self.requests) > MAX_REQUESTS:
            raise Incomplete(f"it has more than {MAX_REQUESTS} requests")

    def once(self):
        """Step 2. Asks each request once in one process, which must succeed and leave nothing. Returns the process."""
        client = self.start()
        for index, request in enumerate(self.requests):
            self.log("once", request)
            try:
                got, answer = self.ask(client, request)
            except NoAnswer:
                raise Incomplete(f"{request} has no answer") from None
            self.unknown.setdefault(index, []).append((got, "after the others, each once"))
            self.silent(client)
            if left := self.traces.left(client) + self.traces.written():
                raise Found(f"after {request}: {'; '.join(left)}")
            if request.expect is not None and (failed(answer) or request.expect not in json.dumps(answer, ensure_ascii=False)):
                raise Incomplete(f"{request} did not succeed: {got[0][:200]}")
        if written := self.traces.written(everywhere=True):
            raise Found(*written)
        return client

    def pairs(self):
        """Step 3. For each request a fresh process. The answer to its first call is the one that every session must get.
        Then the request comes again, and before and after each other one. So each pair was asked in both orders, early
        in a process and late."""
        for first, request in enumerate(self.requests):
            self.log("pairs", request)
            client = self.start()
            try:
                self.known[first], _ = self.ask(client, request)
            except NoAnswer:
                raise Found(f"{request} has no answer in each fresh process") from None
            for got, when in self.unknown.pop(first, []):
                self.same(first, got, when)
            self.compare(client, first, "when it is repeated")
            others = [index for index in range(len(self.requests)) if index != first]
            self.random.shuffle(others)
            for other in others:
                self.compare(client, other, f"after {request}")
                self.compare(client, first, f"after {self.requests[other]}")
            self.finish(client)

    def many(self):
        """Step 4. Many requests in a random order in one process: state that shows after a number of calls. Those that
        take long are left out."""
        self.log("many")
        took = [self.seconds[id(request)] for request in self.requests]
        quick = [index for index, each in enumerate(took) if each <= max(0.05, 4 * min(took))]
        client, began, count = self.start(), time.monotonic(), 0
        while count < MANY_CALLS and time.monotonic() - began < MANY_S:
            self.compare(client, self.random.choice(quick), f"after {count} others")
            count += 1
        self.counts["calls_of_one_process"] = count
        self.finish(client)

    def at_once(self):
        """Step 5. Requests at the same time. In the second half some of them are cancelled."""
        self.log("at once")
        client = self.start()
        for turn in range(CONCURRENT_ROUNDS):
            cancels, sent = turn >= CONCURRENT_ROUNDS // 2, []
            beside = "beside other calls" + (", some of which are cancelled" if cancels else "")
            for number in range(CONCURRENT_CALLS):
                index = self.random.randrange(len(self.requests))
                request = client.send(self.requests[index].method, self.requests[index].params)
                if cancels and number % 10 == 9:
                    client.notify("notifications/cancelled", {"requestId": request, "reason": "test"})
                else:
                    sent.append((index, request))
            for index, request in sent:
                try:
                    answer = client.answer(request)
                except NoAnswer:
                    raise Found(f"{self.requests[index]} has no answer {beside}") from None
                except Ended:
                    raise Found(f"its process ends {beside}") from None
                self.same(index, (normal(self.requests[index], answer), self.known[index][1]), beside)
            self.counts["calls_at_once"] += CONCURRENT_CALLS
        for index in range(len(self.requests)):
            self.compare(client, index, "after calls at the same time")
        self.finish(client)

    def slow(self):
        """Step 6. The slowest request, if it takes long, and at the same time the quickest one, and the quickest of the
        same tool."""
        order = sorted(self.requests, key=lambda request: self.seconds[id(request)])
        slowest = order[-1]
        same_tool = next(each for each in order if each.params.get("name") == slowest.params.get("name"))
        least = self.seconds[id(slowest)]
        quick_ones = [quick for quick in (order[0], same_tool)
                      if least >= max(SLOW_S, 3 * self.seconds[id(quick)])]
        if not quick_ones:
            return
        self.log("slow", slowest)
        client = self.start()
        for quick in quick_ones:
            self.ask(client, quick)
            waiting = client.send(slowest.method, slowest.params)
            time.sleep(0.05)
            other = client.send(quick.method, quick.params)
            try:
                client.answer(other), client.answer(waiting)
            except (NoAnswer, Ended):
                raise Found(f"{slowest} has no answer beside {quick}") from None
            if client.times[other] > client.times[waiting]:
                raise Found(f"{slowest} holds up other calls, such as {quick}")
        self.finish(client)

    def other_arguments(self):
        """Step 7. Generated arguments in several orders. Each such call must have one result in all orders, and the
        requests must have theirs afterwards."""
        generated, first, out_of_time = generated_calls(self.tools, self.calls, self.files), {}, set()
        for turn in range(GENERATED_ORDERS):
            self.log("other arguments", turn)
            client, order = self.start(), list(range(len(generated)))
            if turn == 1:
                order.reverse()
            elif turn > 1:
                self.random.shuffle(order)
            for index in order:
                if index in out_of_time:
                    continue
                try:
                    (text, asked), _ = self.ask(client, generated[index], GENERATED_TIMEOUT_S)
                except NoAnswer:
                    out_of_time.add(index)
                    continue
                if first.setdefault(index, (text, asked)) != (text, asked):
                    raise Found(f"{generated[index]} has another result in another order of calls: "
                                + difference(text + str(asked), first[index][0] + str(first[index][1])))
            for index in range(len(self.requests)):
                self.compare(client, index, "after calls with other arguments")
            self.finish(client)
        self.counts["calls_with_other_arguments"] = len(generated) - len(out_of_time)

    def after_all(self):
        """Step 8. A fresh process, after all others: it must not know of them."""
        self.log("after all")
        client = self.start()
        for index in range(len(self.requests)):
            self.compare(client, index, "in a process that started after all others")
        self.finish(client)
        if written := self.traces.written(everywhere=True):
            raise Found(*written)
