"""DSPy: the tools that it makes of those of a session of the SDK."""

from contextlib import asynccontextmanager

from dspy import Tool
from mcp import ClientSession, StdioServerParameters, stdio_client
from session import Session, by_name, main


@asynccontextmanager
async def connect(server):
    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    async with stdio_client(params) as streams, ClientSession(*streams) as client:
        await client.initialize()
        tools = [Tool.from_mcp_tool(client, tool) for tool in (await client.list_tools()).tools]
        yield Session(
            tools=lambda: [{"name": tool.name, "description": tool.desc, "args": tool.args} for tool in tools],
            call=lambda name, arguments, _: by_name(tools, name).acall(**arguments),
        )


main(connect)
