"""The server of a model that looks for tools as a model does: python model.py TARGETS.json LOG

The targets are a list of {"server", "tool", "description", "arguments"}. For each of them, the model calls the tool if it
sees its definition. Else it uses search_dynamic_tools and call_dynamic_tool if it sees those, and else the search of the
client itself. A target with "meanwhile" may appear later; until then the model calls that other tool and looks for the
target by turns, three times at most. tests/real/fake_model.py speaks to the client.
"""

import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/real"))
import fake_model  # noqa: E402

# The tools with which clients search for other tools.
CLIENT_SEARCHES = re.compile(r"^(ToolSearch|tool_search\w*|search_tools?)$")
MAX_CALLS = 12


def slug(name):
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def function_of(tool, namespace=None):
    """A tool in one form: name, namespace, description, whether only a search shows it, and its text."""
    inner = tool.get("function", tool)
    return {"name": inner.get("name") or inner.get("type"), "namespace": namespace,
            "description": inner.get("description") or "", "deferred": bool(tool.get("defer_loading")), "tool": tool}


def flatten(tools):
    """The tools of a request, those in namespaces and declarations, too."""
    for tool in tools or []:
        if tool.get("type") == "namespace":
            yield from (function_of(inner, tool["name"]) for inner in tool.get("tools", []))
        elif "functionDeclarations" in tool:
            yield from map(function_of, tool["functionDeclarations"])
        else:
            yield function_of(tool)


def references(results):
    """The names of tools that Anthropic's search results refer to."""
    blocks = [block for result in results if isinstance(result, list) for block in result if isinstance(block, dict)]
    return {block["tool_name"] for block in blocks if block.get("type") == "tool_reference"}


def loaded(results):
    """The definitions in the results of a search of the Responses API."""
    return [tool for result in results if isinstance(result, list)
            for tool in flatten([each for each in result if isinstance(each, dict) and "name" in each])]


def visible(body, results):
    """The tools that the model can call now."""
    shown = references(results)
    tools = [tool for tool in flatten(body.get("tools")) if not tool["deferred"] or tool["name"] in shown]
    return tools + [{**tool, "deferred": False} for tool in loaded(results)]


def is_target(tool, target):
    name = slug(f"{tool['namespace'] or ''}_{tool['name']}")
    rest = name.removesuffix(slug(target["tool"]))
    # Some clients leave the name of the server out.
    if rest in ("", name):
        return target["description"] == tool["description"]
    return slug(target["server"]) in rest


def call(tool, arguments):
    named = {"name": tool["name"], "arguments": arguments}
    return {**named, "namespace": tool["namespace"]} if tool["namespace"] else named


class Seeker:
    """Calls the targets, one after the other."""

    def __init__(self, targets):
        self.targets = targets
        # By the number of results before it: which target a call was for. Calls that only look for tools are not here.
        self.final = {}
        self.waited = 0
        self.has_waited = False

    def next_call(self, body, results):
        if len(results) >= MAX_CALLS:
            return None
        reached = len([made for made in self.final if made < len(results)])
        if reached >= len(self.targets):
            return None
        target = self.targets[reached]
        tools = visible(body, results)
        found = (self.direct(tools, target) or self.through_bridge(tools, target, results)
                 or self.through_meta(tools, target, results))
        if found:
            self.final[len(results)] = reached
            return found
        self.has_waited = not self.has_waited
        if self.has_waited and (waits := self.wait(tools, target)):
            return waits
        return self.look(tools, target, body, results) or self.wait(tools, target)

    @staticmethod
    def direct(tools, target):
        return next((call(tool, target["arguments"]) for tool in tools if is_target(tool, target)), None)

    @staticmethod
    def through_bridge(tools, target, results):
        """The call through `tool_call`, with which Qwen Code calls what its search has shown."""
        bridge = next((tool for tool in tools if tool["name"] == "tool_call"), None)
        shown = re.findall(r'name\\*"\s*:\s*\\*"([\w.-]+)', json.dumps(results)) if bridge else []
        for name in shown:
            if is_target({"namespace": None, "name": name, "description": ""}, target):
                return call(bridge, {"name": name, "arguments": target["arguments"]})
        return None

    @staticmethod
    def meta(tools, name):
        return next((tool for tool in tools if tool["name"].endswith(name)), None)

    def through_meta(self, tools, target, results):
        """The call through dynamic-mcp, once the results have shown the tool with its arguments."""
        tool = self.meta(tools, "call_dynamic_tool")
        text = json.dumps(results)
        if tool and all(word in text for word in (target["tool"], *target["arguments"])):
            arguments = {"group": target["server"], "name": target["tool"], "args": target["arguments"]}
            return call(tool, arguments)
        return None

    def look(self, tools, target, body, results):
        """A call that looks for the target."""
        if search := self.meta(tools, "search_dynamic_tools"):
            asked = json.dumps(body).count(target["description"][:20]) > 1
            group = self.meta(tools, "get_dynamic_tools")
            if asked and group:
                return call(group, {"group": target["server"], "tools": [target["tool"]]})
            return call(search, {"query": f"{target['server']} {target['description']}"})
        search = next((tool for tool in tools if CLIENT_SEARCHES.match(tool["name"])), None)
        if not search or len(results) > 8:
            return None
        # Clients that search name the tools that they hide.
        names = sorted(set(re.findall(r"[\w.-]*(?:search|get|call)_dynamic_tools?\b", json.dumps(body))))
        own = [name for name in re.findall(r"mcp__[\w-]+", json.dumps(body))
               if is_target({"namespace": None, "name": name, "description": ""}, target)]
        if names and not own and "flat" not in target:
            query = " ".join(names)
        else:
            query = f"{target['server']} {target['tool']} {target['description']}"
        if search["name"] == "ToolSearch" and (own or names):
            query = "select:" + ",".join(own[:1] or names)
        return call(search, {"query": query})

    def wait(self, tools, target):
        """A call of the tool after which the target may appear. The client has the time to read the list again."""
        if "meanwhile" not in target or self.waited == 3:
            return None
        self.waited += 1
        time.sleep(1)
        found = self.direct(tools, target["meanwhile"])
        meta = self.meta(tools, "call_dynamic_tool")
        if found or not meta:
            return found
        other = target["meanwhile"]
        return call(meta, {"group": other["server"], "name": other["tool"], "args": other["arguments"]})


if __name__ == "__main__":
    fake_model.serve(Seeker(json.loads(Path(sys.argv[1]).read_text())), sys.argv[2])
