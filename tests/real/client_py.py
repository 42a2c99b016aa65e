"""A client with the Python SDK, 1.x or 2.x: python client_py.py PLAN.json

Does what run_plan.mjs does. With 2.x and "auto" as the plan's "mode" it tries server/discover first and falls back to
initialize.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import anyio
import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

try:
    from mcp.client.streamable_http import streamablehttp_client
except ImportError:
    # 2.x has it in its `Client`.
    pass

McpError = getattr(mcp, "MCPError", None) or mcp.McpError


async def elicit(_context, _params):
    """The answer of the user."""
    return mcp.types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(_context, _params):
    """The answer of the model."""
    text = mcp.types.TextContent(type="text", text="crab")
    return mcp.types.CreateMessageResult(role="assistant", content=text, model="fake")


async def list_roots(_context):
    """The directory of the user."""
    return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri="file:///work")])


# The params of the last notification of each method.
notifications = {}
# The data of all log messages.
log_messages = []


async def keep_notification(message):
    """Handles a message of the server."""
    message = dump(getattr(message, "root", message), "method", "params")
    if "method" in message:
        notifications[message["method"]] = message.get("params")
        if message["method"] == "notifications/message":
            log_messages.append(message["params"]["data"])


def handlers(plan):
    """The handlers that the plan needs."""
    more = {"sampling_callback": sample, "list_roots_callback": list_roots} if plan.get("sampling_and_roots") else {}
    return {"elicitation_callback": elicit, "message_handler": keep_notification, **more}


@asynccontextmanager
async def connect(plan):
    """A connected client with its revision, and the server's info and instructions."""
    server = plan.get("url")
    if not server:
        command, *args = plan["command"]
        server = StdioServerParameters(command=command, args=args)
    if hasattr(mcp, "Client"):
        async with mcp.Client(server, mode=plan["mode"], **handlers(plan)) as client:
            yield client, (client.protocol_version, client.server_info, client.instructions)
    else:
        transport = streamablehttp_client(server) if "url" in plan else stdio_client(server)
        async with transport as (read, write, *_), mcp.ClientSession(read, write, **handlers(plan)) as client:
            result = await client.initialize()
            yield client, (result.protocolVersion, result.serverInfo, result.instructions)


async def result_of(client, call):
    """Makes a call and returns the members of its result that the report has."""
    if "level" in call:
        await client.set_logging_level(call["level"])
        return {}
    if "subscribe" in call:
        await client.subscribe_resource(call["subscribe"])
        return {}
    if "wait_for" in call:
        return await repeat_until_notified(client, call)
    if call.get("until"):
        return await repeat_until_contained(client, call)
    if "read" in call:
        return dump(await client.read_resource(call["read"]), "contents")
    if "prompt" in call:
        return dump(await client.get_prompt(call["prompt"], call["arguments"]), "messages")
    notified = []

    async def keep_progress(progress, total, message):
        notified.append({"progress": progress, "total": total, "message": message})

    options = {"progress_callback": keep_progress} if call.get("with_progress") else {}
    result = await client.call_tool(call["name"], call["arguments"], **options)
    members = dump(result, "content", "structuredContent", "isError")
    members.setdefault("isError", False)
    return {**members, "progress": notified} if options else members


async def repeat_until_notified(client, call):
    """A server may send notifications on a separate stream, which may not be open yet when the first call is made."""
    methods = call["wait_for"]
    repeated = {key: value for key, value in call.items() if key != "wait_for"}
    notifications.clear()
    for _ in range(60):
        result = await result_of(client, repeated)
        for _ in range(50):
            if all(method in notifications for method in methods):
                return {**result, "notifications": [notifications[method] for method in methods]}
            await asyncio.sleep(0.01)
    return {"notifications": list(notifications)}


async def repeat_until_contained(client, call):
    """Makes a call until its result contains a text."""
    for _ in range(600):
        result = await result_of(client, {**call, "until": None})
        if call["until"] in json.dumps(result):
            break
        await asyncio.sleep(0.05)
    return result


def dump(result, *members):
    result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: result[key] for key in members if key in result}


async def result_or_error(client, call):
    try:
        return await result_of(client, call)
    except McpError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}


async def run(plan, report):
    """Does what the plan says, and puts what the report has into it."""
    async with connect(plan) as (client, (version, server, instructions)):
        tools = [] if plan.get("unlisted") else (await client.list_tools()).tools
        results = [await result_or_error(client, call) for call in plan["calls"]]
        report |= {
            "version": version,
            "server": server.name,
            "instructions": instructions,
            "tools": [tool.name for tool in tools],
            "definitions": [dump(tool, "name", "description", "inputSchema") for tool in tools],
            "results": results,
            "messages": log_messages,
        }


def came_at_the_end(error):
    """Whether a message came while the client closed: 1.x fails then."""
    parts = getattr(error, "exceptions", [])
    return all(map(came_at_the_end, parts)) if parts else isinstance(error, anyio.BrokenResourceError)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    report = {}
    try:
        asyncio.run(run(plan, report))
    except Exception as error:
        if not report or not came_at_the_end(error):
            raise
    print(json.dumps(report))


main()
