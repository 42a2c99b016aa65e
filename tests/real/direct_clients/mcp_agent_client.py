"""mcp-agent: `MCPAggregator` with one server, in an `MCPApp`."""

from contextlib import asynccontextmanager

from mcp_agent.app import MCPApp
from mcp_agent.config import LoggerSettings, MCPServerSettings, MCPSettings, Settings
from mcp_agent.mcp.mcp_aggregator import MCPAggregator
from session import Session, main


@asynccontextmanager
async def connect(server):
    entry = MCPServerSettings(command=server.command, args=server.args, env=server.env)
    settings = Settings(mcp=MCPSettings(servers={"dyn": entry}), logger=LoggerSettings(type="none"))
    async with MCPApp("direct", settings=settings).run() as app:
        async with MCPAggregator(["dyn"], context=app.context) as client:
            yield Session(
                tools=client.list_tools,
                call=lambda name, arguments, _: client.call_tool(f"dyn_{name}", arguments),
                resources=client.list_resources,
                read=client.read_resource,
                prompts=client.list_prompts,
                prompt=lambda name, arguments: client.get_prompt(f"dyn_{name}", arguments),
            )


main(connect)
