"""Strands Agents: `MCPClient`."""

from contextlib import asynccontextmanager

from mcp import StdioServerParameters, stdio_client
from session import Session, main
from strands.tools.mcp import MCPClient


@asynccontextmanager
async def connect(server):
    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    with MCPClient(lambda: stdio_client(params), startup_timeout=60) as client:
        async def call(name, arguments, show):
            async def keep_progress(progress, total, message):
                show(progress, total, message)

            return await client.call_tool_async("1", name, arguments, progress_callback=keep_progress)

        yield Session(
            tools=lambda: [tool.tool_spec for tool in client.list_tools_sync()],
            call=call,
            resources=client.list_resources_sync,
            read=client.read_resource_sync,
            prompts=client.list_prompts_sync,
            prompt=client.get_prompt_sync,
        )


main(connect)
