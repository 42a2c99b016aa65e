"""Pydantic AI: `MCPToolset`, with the tools of an agent and the direct functions."""

from contextlib import asynccontextmanager

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
from session import Session, main


@asynccontextmanager
async def connect(server):
    transport = StdioTransport(server.command, server.args, env=server.env, keep_alive=False)
    async with MCPToolset(transport, init_timeout=60) as toolset:
        yield Session(
            tools=toolset.list_tools,
            call=lambda name, arguments, _: toolset.direct_call_tool(name, arguments),
            resources=toolset.list_resources,
            read=toolset.read_resource,
            prompts=toolset.list_prompts,
            prompt=toolset.get_prompt,
        )


main(connect)
