"""An MCP client of a server on stdin and stdout that can have several requests open."""

import json
import os
import signal
import subprocess
import threading
import time

ANSWER_TIMEOUT_S = 40
START_TIMEOUT_S = 60
END_TIMEOUT_S = 1
REVISION = "2025-11-25"


class NoAnswer(Exception):
    """A request has no answer in time."""


class Ended(Exception):
    """The server's process has ended."""


class Client:
    def __init__(self, command, env, directory):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env, cwd=directory, start_new_session=True)
        self.answers, self.times, self.asked, self.notified = {}, {}, [], []
        self.changed, self.last_id, self.ended, self.hello = threading.Condition(), 0, False, None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            with self.changed:
                if "method" not in message:
                    self.answers[message.get("id")] = message.get("result", {"error": message.get("error")})
                    self.times[message.get("id")] = time.monotonic()
                elif "id" in message:
                    self.asked.append(message["method"])
                    result = {"roots": []} if message["method"] == "roots/list" else {}
                    self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})
                else:
                    self.notified.append(message["method"])
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def write(self, message):
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def notify(self, method, params=None):
        self.write({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def send(self, method, params):
        self.last_id += 1
        self.write({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.last_id

    def answer(self, request, timeout=None):
        """Returns the result, or {"error": …}."""
        with self.changed:
            self.changed.wait_for(lambda: request in self.answers or self.ended, timeout or ANSWER_TIMEOUT_S)
            if request in self.answers:
                return self.answers[request]
            raise Ended if self.ended else NoAnswer

    def request(self, method, params, timeout=None):
        request = self.send(method, params)
        try:
            return self.answer(request, timeout)
        except NoAnswer:
            self.notify("notifications/cancelled", {"requestId": request, "reason": "out of time"})
            raise

    def initialize(self, name, capabilities):
        try:
            self.hello = self.request("initialize", {"protocolVersion": REVISION, "capabilities": capabilities,
                                                     "clientInfo": {"name": name, "version": "1"}}, START_TIMEOUT_S)
        except (NoAnswer, Ended):
            self.close()
            raise
        self.notify("notifications/initialized")
        return self

    def list_all(self, method, key):
        """Returns all pages of a list, or the error."""
        found, cursor = [], {}
        for _ in range(100):
            page = self.request(method, cursor)
            if key not in page:
                return page
            found += page[key]
            if not page.get("nextCursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        return found

    def close(self):
        """Ends the process and what it started: by the end of its input, then by signals."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        for sent in (None, signal.SIGTERM):
            try:
                if sent:
                    os.killpg(self.process.pid, sent)
                self.process.wait(END_TIMEOUT_S)
                break
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
