#!/usr/bin/env python3
"""Plays host, user and browser for the conformance suite's client scenarios that are about logins.

    conformance client --command "conformance_login.py PROGRAM" --scenario auth/…

The suite adds the URL of its server. Logs in when the program reports that a login is needed, at most three times."""
import json, os, subprocess, sys, tempfile, time, urllib.request

program, url = sys.argv[1], sys.argv[-1]
scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
home = tempfile.TemporaryDirectory()


def oauth():
    if "private_key_pem" in context:
        return {"flow": "client_credentials", "client_id": context["client_id"], "private_key": context["private_key_pem"].replace("$", "$$")}
    if scenario.endswith("client-credentials-basic"):
        return {"flow": "client_credentials", "client_id": context["client_id"], "client_secret": context["client_secret"]}
    if "client_id" in context:
        return {key: context[key] for key in ("client_id", "client_secret") if key in context}
    if "cimd" in scenario:
        return {"client_metadata_url": "https://conformance-test.local/client-metadata.json", "redirect_port": 3000}
    return {}


config = os.path.join(home.name, "servers.json")
with open(config, "w") as file:
    json.dump({"mcpServers": {"g": {"url": url, "oauth": oauth()}}, "settings": {"lazy_startup": "pure", "keyring": False}}, file)
environment = {"HOME": os.environ["HOME"], "XDG_DATA_HOME": home.name, "PATH": os.environ["PATH"]}


class Proxy:
    def __init__(self):
        command = [program, "--config", config, "--no-cache"]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.id = 0
        client = {"name": "conformance", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.id += 1
        self.send({"id": self.id, "method": method, "params": params})
        while True:
            response = json.loads(self.process.stdout.readline())
            if response.get("id") == self.id and "method" not in response:
                return response

    def call_tool(self, name, arguments):
        result = self.request("tools/call", {"name": name, "arguments": arguments})["result"]
        text = "".join(part.get("text", "") for part in result["content"])
        return not result.get("isError"), text


def login():
    command = [program, "login", "g", "--no-browser", "--timeout", "20", "--config", config]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("http"):
            try:
                urllib.request.urlopen(line.strip(), timeout=20).read()
            except OSError as error:
                print("the browser:", error, file=sys.stderr)
            break
    print("login:", process.communicate()[0], file=sys.stderr)
    return process.returncode == 0


def main():
    proxy, logins = Proxy(), 0
    steps = [("get_dynamic_tools", {"group": "g"}), ("call_dynamic_tool", {"group": "g", "name": "test-tool", "args": {}})]
    if scenario.endswith("authorization-server-migration"):
        steps.append(steps[1])
    for name, arguments in steps:
        while True:
            succeeded, text = proxy.call_tool(name, arguments)
            print(name, succeeded, text, file=sys.stderr)
            if succeeded or "dynamic-mcp login" not in text:
                break
            logins += 1
            if logins > 3 or not login():
                return
            # The same process retries five seconds after the failure at the earliest. A new process connects at once.
            proxy.process.stdin.close()
            proxy = Proxy()
    proxy.process.stdin.close()
    proxy.process.wait(10)


main()
