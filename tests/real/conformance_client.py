#!/usr/bin/env python3
"""Plays host and user for the conformance suite's client scenarios that are not about logins.

    conformance client --command "conformance_client.py PROGRAM" --scenario …

The suite adds the URL of its server. Lists the tools, calls each with valid arguments, and accepts elicitations with
their defaults. Reads each resource and gets each prompt. An argument `schema` is the schema of the first tool."""
import json, os, subprocess, sys, tempfile

program, url = sys.argv[1], sys.argv[-1]
context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
SAMPLES = {"number": 2, "integer": 3, "boolean": True, "object": {}, "array": []}


class Host:
    def __init__(self, home):
        config = os.path.join(home, "servers.json")
        with open(config, "w") as file:
            json.dump({"mcpServers": {"g": {"url": url}}, "settings": {"lazy_startup": "pure", "surface": "flat"}}, file)
        environment = {"HOME": os.environ["HOME"], "XDG_DATA_HOME": home, "PATH": os.environ["PATH"]}
        command = [program, "--config", config, "--no-cache"]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.id = 0
        capabilities = {"elicitation": {"form": {"applyDefaults": True}}}
        client = {"name": "conformance", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client})
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.id += 1
        self.send({"id": self.id, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("method") == "elicitation/create":
                properties = message["params"].get("requestedSchema", {}).get("properties", {})
                content = {name: schema.get("default", True) for name, schema in properties.items()}
                self.send({"id": message["id"], "result": {"action": "accept", "content": content}})
            elif message.get("id") == self.id and "method" not in message:
                return message

    def call_tool(self, name, arguments):
        response = self.request("tools/call", {"name": name, "arguments": arguments})
        print(name, json.dumps(response)[:300], file=sys.stderr)
        return response

    def list(self, kind):
        return self.request(kind + "/list", {}).get("result", {}).get(kind, [])

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def arguments(schema, first):
    if schema.get("required") == ["schema"]:
        return {"schema": first["inputSchema"]}
    properties = schema.get("properties", {})
    return {name: SAMPLES.get(properties.get(name, {}).get("type"), "sample") for name in schema.get("required", [])}


def main():
    with tempfile.TemporaryDirectory() as home:
        host = Host(home)
        host.call_tool("get_dynamic_tools", {"group": "g"})
        tools = [tool for tool in host.request("tools/list", {"lazy": False})["result"]["tools"] if tool["name"].startswith("g__")]
        calls = context.get("toolCalls") or [
            {"name": tool["name"][3:], "arguments": arguments(tool["inputSchema"], tools[0])} for tool in tools
        ]
        for call in calls:
            host.call_tool("call_dynamic_tool", {"group": "g", "name": call["name"], "args": call["arguments"]})
        for resource in host.list("resources"):
            host.request("resources/read", {"uri": resource["uri"]})
        for prompt in host.list("prompts"):
            host.request("prompts/get", {"name": prompt["name"]})
        host.close()


main()
