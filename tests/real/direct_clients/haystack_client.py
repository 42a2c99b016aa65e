"""Haystack: the tools of `MCPToolset`."""

from contextlib import asynccontextmanager

from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo
from session import Session, by_name, main


@asynccontextmanager
async def connect(server):
    info = StdioServerInfo(server.command, server.args, server.env)
    toolset = MCPToolset(info, connection_timeout=60, invocation_timeout=60, eager_connect=True)
    yield Session(
        tools=lambda: [tool.tool_spec for tool in toolset],
        call=lambda name, arguments, _: by_name(toolset, name).invoke(**arguments),
    )
    toolset.close()


main(connect)
