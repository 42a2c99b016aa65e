"""mcp-use: `MCPClient` with a config."""

from contextlib import asynccontextmanager

from mcp_use import MCPClient
from session import Session, main


@asynccontextmanager
async def connect(server):
    entry = {"command": server.command, "args": server.args, "env": server.env}
    client = MCPClient.from_dict({"mcpServers": {"dyn": entry}})
    session = await client.create_session("dyn")
    yield Session(
        tools=session.list_tools,
        call=lambda name, arguments, _: session.call_tool(name, arguments),
        resources=session.list_resources,
        read=session.read_resource,
        prompts=session.list_prompts,
        prompt=session.get_prompt,
    )
    await client.close_all_sessions()


main(connect)
