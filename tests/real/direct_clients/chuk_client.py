"""chuk-mcp: a client that does not use the official SDK."""

from contextlib import asynccontextmanager

from chuk_mcp.client import connect_to_server
from chuk_mcp.transports.stdio import StdioParameters
from session import Session, main


@asynccontextmanager
async def connect(server):
    params = StdioParameters(command=server.command, args=server.args, env=server.env)
    async with connect_to_server(params) as client:
        yield Session(
            tools=client.list_tools,
            call=lambda name, arguments, _: client.call_tool(name, arguments),
            resources=client.list_resources,
            read=client.read_resource,
            prompts=client.list_prompts,
            prompt=client.get_prompt,
        )


main(connect)
