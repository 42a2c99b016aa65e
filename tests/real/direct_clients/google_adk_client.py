"""Google ADK: the tools of `McpToolset`, with progress. It reads resources by their names."""

from contextlib import asynccontextmanager

from types import SimpleNamespace

from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from mcp import StdioServerParameters
from session import Session, by_name, main


@asynccontextmanager
async def connect(server):
    shown = []

    async def keep_progress(progress, total, message, **_):
        shown[-1](progress, total, message)

    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    connection = StdioConnectionParams(server_params=params, timeout=60)
    toolset = McpToolset(connection_params=connection, progress_callback=keep_progress)
    tools = await toolset.get_tools()

    async def call(name, arguments, show):
        shown.append(show)
        context = SimpleNamespace(function_call_id="1", state={}, custom_metadata={}, tool_confirmation=None)
        return await by_name(tools, name).run_async(args=arguments, tool_context=context)

    yield Session(
        tools=lambda: [tool._get_declaration() for tool in tools],
        call=call,
        resources=toolset.list_resources,
        read=lambda uri: toolset.read_resource(uri.rsplit("/", 1)[1]),
    )
    await toolset.close()


main(connect)
