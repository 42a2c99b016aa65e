"""OpenAI Agents SDK: `MCPServerStdio`."""

from contextlib import asynccontextmanager

from agents.mcp import MCPServerStdio
from session import Session, main


@asynccontextmanager
async def connect(server):
    params = {"command": server.command, "args": server.args, "env": server.env}
    async with MCPServerStdio(params, name="dyn", client_session_timeout_seconds=60) as client:
        yield Session(
            tools=client.list_tools,
            call=lambda name, arguments, _: client.call_tool(name, arguments),
            resources=client.list_resources,
            read=client.read_resource,
            prompts=client.list_prompts,
            prompt=client.get_prompt,
        )


main(connect)
