"""BeeAI Framework: the tools of `MCPTool`."""

from contextlib import asynccontextmanager

from beeai_framework.tools.mcp import MCPTool
from mcp import ClientSession, StdioServerParameters, stdio_client
from session import Session, by_name, main


@asynccontextmanager
async def connect(server):
    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    async with stdio_client(params) as streams, ClientSession(*streams) as client:
        await client.initialize()
        tools = await MCPTool.from_client(client)

        async def call(name, arguments, _):
            return (await by_name(tools, name).run(arguments)).result

        yield Session(
            tools=lambda: [{"name": tool.name, "description": tool.description, "schema": tool.input_schema}
                           for tool in tools],
            call=call,
        )


main(connect)
