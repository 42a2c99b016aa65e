"""A client with FastMCP: python client_fastmcp.py PLAN.json

Does of what run_plan.mjs does: the list, calls of tools, and "until".
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

# The data of all log messages.
messages = []


async def keep_message(message):
    """The log handler."""
    messages.append(message.data)


async def result_of(client, call):
    """Makes a call, until its result contains the text of the call, and returns the members that the report has."""
    for _ in range(600):
        result = await client.call_tool_mcp(call["name"], call["arguments"])
        result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        if (call.get("until") or "") in json.dumps(result):
            break
        await asyncio.sleep(0.05)
    return {key: result.get(key) for key in ("content", "structuredContent", "isError")}


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    command, *args = plan["command"]
    transport = StdioTransport(command, args)
    async with Client(transport, mode=plan["mode"], log_handler=keep_message) as client:
        tools = await client.list_tools()
        report = {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools],
            "definitions": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools],
            "results": [await result_of(client, call) for call in plan["calls"]],
        }
    print(json.dumps({**report, "messages": messages}))


asyncio.run(main())
