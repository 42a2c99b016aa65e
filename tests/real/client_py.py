"""A client with the Python SDK, 1.x or 2.x: python client_py.py PLAN.json

Does what run_plan.mjs does. With 2.x and the plan's "mode" "auto" it asks server/discover first and falls back to
initialize.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

McpError = getattr(mcp, "MCPError", None) or mcp.McpError


async def answer(_context, _params):
    """What a user answers who is asked something."""
    return mcp.types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(_context, _params):
    """What a model says."""
    text = mcp.types.TextContent(type="text", text="crab")
    return mcp.types.CreateMessageResult(role="assistant", content=text, model="fake")


async def list_roots(_context):
    """Where a user works."""
    return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri="file:///work")])


told = {}


async def hear(message):
    """Keeps the last notification of each kind."""
    message = dump(getattr(message, "root", message), "method", "params")
    if "method" in message:
        told[message["method"]] = message.get("params")


def handlers(plan):
    """Sampling and roots if the plan wants a client that can tell."""
    tells = {"sampling_callback": sample, "list_roots_callback": list_roots} if plan.get("tells") else {}
    return {"elicitation_callback": answer, "message_handler": hear, **tells}


@asynccontextmanager
async def connect(plan):
    """A connected client and the answer to its handshake."""
    command, *args = plan["command"]
    server = StdioServerParameters(command=command, args=args)
    if hasattr(mcp, "Client"):
        async with mcp.Client(server, mode=plan["mode"], **handlers(plan)) as client:
            yield client, (client.protocol_version, client.server_info, client.instructions)
    else:
        async with stdio_client(server) as streams, mcp.ClientSession(*streams, **handlers(plan)) as client:
            hello = await client.initialize()
            yield client, (hello.protocolVersion, hello.serverInfo, hello.instructions)


async def made(client, call):
    """The members of the result that matter."""
    if "level" in call:
        await client.set_logging_level(call["level"])
        return {}
    if "subscribe" in call:
        await client.subscribe_resource(call["subscribe"])
        return {}
    if "until" in call:
        return await told_of(client, call)
    if "read" in call:
        return dump(await client.read_resource(call["read"]), "contents")
    if "prompt" in call:
        return dump(await client.get_prompt(call["prompt"], call["arguments"]), "messages")
    steps = []

    async def watch(progress, total, message):
        steps.append({"progress": progress, "total": total, "message": message})

    watching = {"progress_callback": watch} if call.get("watch") else {}
    result = await client.call_tool(call["name"], call["arguments"], **watching)
    kept = dump(result, "content", "structuredContent", "isError")
    kept.setdefault("isError", False)
    return {**kept, "steps": steps} if watching else kept


async def told_of(client, call):
    """Whoever listens on a stream of its own may not do so yet when the first call is made."""
    methods = call["until"]
    again = {key: value for key, value in call.items() if key != "until"}
    told.clear()
    for _ in range(60):
        result = await made(client, again)
        for _ in range(50):
            if all(method in told for method in methods):
                return {**result, "told": [told[method] for method in methods]}
            await asyncio.sleep(0.01)
    return {"told": list(told)}


def dump(result, *members):
    result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: result[key] for key in members if key in result}


async def outcome(client, call):
    try:
        return await made(client, call)
    except McpError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    async with connect(plan) as (client, (version, server, instructions)):
        tools = (await client.list_tools()).tools
        results = [await outcome(client, call) for call in plan["calls"]]
    report = {
        "version": version,
        "server": server.name,
        "instructions": instructions,
        "tools": [tool.name for tool in tools],
        "results": results,
    }
    print(json.dumps(report))


asyncio.run(main())
