"""Microsoft Agent Framework: `MCPStdioTool`."""

from contextlib import asynccontextmanager

from agent_framework import MCPStdioTool
from session import Session, main


@asynccontextmanager
async def connect(server):
    async with MCPStdioTool("dyn", server.command, args=server.args, env=server.env, request_timeout=60) as toolset:
        yield Session(
            tools=lambda: [{"name": tool.name, "description": tool.description, "schema": tool.parameters()}
                           for tool in toolset.functions],
            call=lambda name, arguments, _: toolset.call_tool(name, **arguments),
            prompt=lambda name, arguments: toolset.get_prompt(name, **arguments),
        )


main(connect)
