"""CAMEL: `MCPClient` and its function tools."""

from contextlib import asynccontextmanager

from camel.utils.mcp_client import MCPClient, ServerConfig
from session import Session, main


@asynccontextmanager
async def connect(server):
    config = ServerConfig(command=server.command, args=server.args, env=server.env, timeout=60)
    async with MCPClient(config) as client:
        yield Session(
            tools=lambda: [tool.openai_tool_schema for tool in client.get_tools()],
            call=lambda name, arguments, _: client.call_tool(name, arguments),
        )


main(connect)
