"""FastMCP: `Client` in its default mode, with the progress of calls."""

from contextlib import asynccontextmanager

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from session import Session, main


@asynccontextmanager
async def connect(server):
    transport = StdioTransport(server.command, server.args, env=server.env, keep_alive=False)

    async def call(name, arguments, show):
        async def keep_progress(progress, total, message):
            show(progress, total, message)

        return await client.call_tool(name, arguments, progress_handler=keep_progress)

    async with Client(transport) as client:
        yield Session(
            tools=client.list_tools,
            call=call,
            resources=client.list_resources,
            read=client.read_resource,
            prompts=client.list_prompts,
            prompt=client.get_prompt,
        )


main(connect)
