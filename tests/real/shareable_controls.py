#!/usr/bin/env python3
"""Small servers with one fault each, which show that the procedure can tell.

    tests/real/shareable_controls.py FAULT        # runs the server with the fault on stdin and stdout

FAULTS has for each fault the finding that the procedure must make. The server without a fault must pass.
"""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.cookiejar import CookieJar

FAULTS = {
    "none": None,
    "counts calls": "has another result",
    "remembers the last argument": "has another result after",
    "answers otherwise after 300 calls": r"has another result after \d+ others",
    "answers otherwise after 6 s": "has another result",
    "random results": "has another result in each fresh process|has another result after",
    "keeps values by name": "after calls with other arguments|in another order of calls",
    "remembers an optional argument": "after calls with other arguments|in another order of calls",
    "keeps a setting of a call": "after calls with other arguments|in another order of calls",
    "breaks after a wrong argument": "after calls with other arguments|in another order of calls",
    "breaks after a cancellation": "which are cancelled|after calls at the same time",
    "ends after a cancellation": "its process ends beside other calls, some of which are cancelled",
    "mixes up calls at the same time": "beside other calls",
    "holds up calls": "holds up other calls",
    "keeps pages": "asks the web",
    "keeps cookies": "asks the web",
    "writes a file": "writes files",
    "keeps a deleted file": "keeps files open for writing",
    "keeps a file in memory": "keeps files open for writing",
    "changes its directory": "changes its working directory",
    "changes its umask": "changes its umask",
    "leaves a process": "leave processes running",
    "listens": "listens on a port",
    "asks for roots": "asks its client: roots/list",
    "asks in a call": "asks its client: elicitation/create",
    "says that its list changed": "sends notifications/tools/list_changed",
    "lists another tool after a call": "lists differ after calls",
    "lists another tool to one client": "shows other lists to the client",
    "remembers in a resource": "resources/read .* has another result",
    "ends after a call": "process ends|has no answer|ends by itself",
}


class Server:
    def __init__(self, fault):
        self.fault, self.count, self.last, self.began, self.client = fault, 0, "", None, ""
        self.pages, self.kept, self.output, self.broken, self.shared = {}, [], threading.Lock(), False, ""
        self.more, self.named = False, {}
        self.one_at_a_time = threading.Lock()
        jar = [urllib.request.HTTPCookieProcessor(CookieJar())] if fault == "keeps cookies" else []
        self.web = urllib.request.build_opener(*jar)

    def write(self, message):
        with self.output:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def run(self):
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") == "notifications/cancelled" and self.fault == "breaks after a cancellation":
                self.broken = True
            if message.get("method") == "notifications/cancelled" and self.fault == "ends after a cancellation":
                os._exit(0)
            if message.get("method") == "notifications/initialized" and self.fault == "asks for roots":
                self.write({"id": "r", "method": "roots/list"})
            if "id" in message and "method" in message:
                threading.Thread(target=self.answer, args=(message,)).start()

    def answer(self, message):
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            self.client = params["clientInfo"]["name"]
            result = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "control", "version": "1"},
                      "capabilities": {"tools": {}, "resources": {}}}
        elif method == "tools/list":
            result = {"tools": self.tools()}
        elif method == "resources/list":
            result = {"resources": [{"uri": "x://one", "name": "one"}]}
        elif method == "resources/templates/list":
            result = {"resourceTemplates": []}
        elif method == "resources/read":
            kept = self.last if self.fault == "remembers in a resource" else ""
            result = {"contents": [{"uri": "x://one", "text": f"one {kept}"}]}
        else:
            try:
                result = {"content": [{"type": "text", "text": self.call(params["name"], params["arguments"])}]}
            except Exception as error:
                result = {"content": [{"type": "text", "text": repr(error)}], "isError": True}
        self.write({"id": message["id"], "result": result})

    def tools(self):
        more = self.fault == "lists another tool to one client" and self.client == "claude-code"
        text = {"type": "object", "properties": {"text": {"type": "string"}, "style": {"type": "string"},
                                                   "lower": {"type": "boolean", "default": False}}, "required": ["text"]}
        return [{"name": name, "inputSchema": schema} for name, schema in [
            ("upper", text), ("get", {"type": "object", "properties": {"name": {"type": "string"}}}),
            ("page", {"type": "object", "properties": {"url": {"type": "string"}}})] +
            ([("other", {"type": "object"})] if self.more or more else [])]

    def call(self, tool, arguments):
        self.count += 1
        self.began = self.began or time.monotonic()
        if self.fault == "holds up calls":
            with self.one_at_a_time:
                return self.result(tool, arguments)
        return self.result(tool, arguments)

    def result(self, tool, arguments):
        if tool == "get":
            return self.get(arguments.get("name"))
        if tool == "page":
            return self.page(arguments["url"])
        if not isinstance(arguments.get("text"), str):
            self.broken |= self.fault == "breaks after a wrong argument"
            raise ValueError("text is no string")
        self.side_effect(arguments)
        if self.fault == "keeps a setting of a call" and "lower" in arguments:
            self.broken = arguments["lower"] is True
        if self.fault == "mixes up calls at the same time":
            self.shared = arguments["text"]
            time.sleep(0.002)
            return self.shared.upper()
        return arguments["text"].upper() + (" broken" if self.broken else "")

    def get(self, name):
        values = {"counts calls": self.count, "remembers the last argument": self.last,
                  "remembers an optional argument": self.last,
                  "keeps values by name": self.named.get(str(name)), "random results": random.random(),
                  "answers otherwise after 300 calls": self.count >= 300,
                  "answers otherwise after 6 s": time.monotonic() - self.began > 6}
        return f"value of {name}: {values.get(self.fault)}"

    def page(self, url):
        if self.fault == "keeps pages":
            self.pages[url] = self.pages.get(url) or self.fetch(url)
            return self.pages[url]
        return self.fetch(url)

    def fetch(self, url):
        return self.web.open(url, timeout=30).read().decode()

    def side_effect(self, arguments):
        fault = self.fault
        if fault not in ("remembers an optional argument", "keeps values by name"):
            self.last = arguments["text"]
        elif "style" in arguments:
            self.last = arguments["style"]
            self.named[arguments["text"]] = arguments["style"]
        if fault == "writes a file":
            open(os.path.expanduser("~/.state"), "w").close()
        elif fault == "keeps a deleted file":
            self.kept.append(tempfile.TemporaryFile())
        elif fault == "keeps a file in memory":
            self.kept.append(os.memfd_create("kept"))
        elif fault == "changes its directory":
            os.chdir("/")
        elif fault == "changes its umask":
            os.umask(0o000)
        elif fault == "leaves a process":
            self.kept.append(subprocess.Popen(["sleep", "1000"]))
        elif fault == "listens":
            self.kept.append(socket.create_server(("127.0.0.1", 0)))
        elif fault == "asks in a call":
            self.write({"id": "e", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {
                "type": "object", "properties": {}}}})
        elif fault == "says that its list changed":
            self.write({"method": "notifications/tools/list_changed"})
        elif fault == "lists another tool after a call":
            self.more = True
        elif fault == "ends after a call":
            threading.Timer(0.1, os._exit, (0,)).start()


if __name__ == "__main__":
    Server(sys.argv[1]).run()
