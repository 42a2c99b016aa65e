"""LangChain: `MultiServerMCPClient` as its documentation begins, with a new session for each operation."""

from contextlib import asynccontextmanager

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from session import Session, by_name, main


@asynccontextmanager
async def connect(server):
    shown = []

    async def keep_progress(progress, total, message, _context):
        for show in shown:
            show(progress, total, message)

    entry = {"command": server.command, "args": server.args, "env": server.env, "transport": "stdio"}
    client = MultiServerMCPClient({"dyn": entry}, callbacks=Callbacks(on_progress=keep_progress))
    tools = await client.get_tools()

    async def call(name, arguments, show):
        shown[:] = [show]
        tool = by_name(tools, name)
        return await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})

    yield Session(
        tools=lambda: [{"name": tool.name, "description": tool.description, "schema": tool.args_schema,
                        "metadata": tool.metadata} for tool in tools],
        call=call,
        resources=client.get_resources,
        read=lambda uri: client.get_resources("dyn", uris=uri),
        prompt=lambda name, arguments: client.get_prompt("dyn", name, arguments=arguments),
    )


main(connect)
