"""What each Python script here does: python SCRIPT.py PLAN.json REPORT.json

A script has a function that connects its library to a server, and hands out a `Session` with what the library offers.
The report is what the library gives its user for each step of the plan, as JSON.
"""

import asyncio
import base64
import dataclasses
import enum
import inspect
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

STEP_S = 60


@dataclasses.dataclass
class Session:
    """The operations of a library, as functions that may be async. `None` is what it does not offer. `call` gets a
    tool's name, its arguments, and a function for progress, which takes anything."""

    tools: object
    call: object
    resources: object = None
    read: object = None
    prompts: object = None
    prompt: object = None


class NotOffered(Exception):
    """The library has no way to do this, such as calling a tool that was not listed."""


def plain(value, depth=0):
    """Any value of a library as JSON: its members, without functions and private ones."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    if depth > 12:
        return "…"
    if isinstance(value, BaseException):
        return failure(value)
    if inspect.isclass(value):
        schema = getattr(value, "model_json_schema", None)
        return schema() if schema else value.__name__
    if isinstance(value, dict):
        return {str(key): plain(member, depth + 1) for key, member in value.items() if not inspect.isroutine(member)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(member, depth + 1) for member in value]
    if hasattr(value, "tobytes"):
        return {"base64": base64.b64encode(value.tobytes()).decode()}
    return members(value, depth)


def members(value, depth):
    """The public members of an object."""
    if hasattr(type(value), "model_fields"):
        pairs = dict(iter(value)) if hasattr(type(value), "__iter__") else vars(value)
    elif hasattr(value, "__dict__"):
        pairs = vars(value)
    else:
        return str(value)
    public = {str(key): plain(member, depth + 1) for key, member in pairs.items()
              if not str(key).startswith("_") and not inspect.isroutine(member)}
    return public or str(value)


def failure(error):
    """An error as its user sees it: type, text, and the code of MCP if it has one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    inner = getattr(error, "error", None)
    code = getattr(inner, "code", getattr(error, "code", None))
    return {"exception": type(error).__name__, "text": str(error), **({"code": code} if isinstance(code, int) else {})}


async def step(function, *arguments):
    """The outcome of one operation."""
    if function is None:
        return {"not offered": True}
    try:
        result = function(*arguments)
        if inspect.isawaitable(result):
            result = await asyncio.wait_for(result, STEP_S)
        return plain(result)
    except NotOffered:
        return {"not offered": True}
    except Exception as error:  # noqa: BLE001
        return failure(error)


async def call(session, plan):
    """A call of a tool, with its progress if the library shows any."""
    progress = []
    result = await step(session.call, plan["name"], plan["arguments"], lambda *values: progress.append(plain(values)))
    return {"result": result, "progress": progress} if progress else {"result": result}


async def run(connect, plan):
    """The whole session."""
    async with connect(SimpleNamespace(**plan["server"])) as session:
        return {
            "tools": await step(session.tools),
            "calls": {planned["label"]: await call(session, planned) for planned in plan["calls"]},
            "resources": await step(session.resources),
            "reads": {uri: await step(session.read, uri) for uri in plan["reads"]},
            "prompts": await step(session.prompts),
            "got prompts": {planned["label"]: await step(session.prompt, planned["name"], planned["arguments"])
                            for planned in plan["prompts"]},
        }


def by_name(tools, name):
    """The tool of that name, for libraries whose tools are objects. Some replace characters in the names."""
    for tool in tools:
        if re.sub("[^a-z0-9]+", "_", tool.name) == re.sub("[^a-z0-9]+", "_", name):
            return tool
    raise NotOffered(name)


def main(connect):
    """Makes the session of the plan, with the function that connects the library."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    report = asyncio.run(run(connect, plan))
    Path(sys.argv[2]).write_text(json.dumps({**report, "closed": True}))
