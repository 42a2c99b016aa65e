"""CrewAI: the tools of `MCPServerAdapter`, which uses mcpadapt."""

from contextlib import asynccontextmanager

from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters
from session import Session, by_name, main


@asynccontextmanager
async def connect(server):
    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    with MCPServerAdapter(params, connect_timeout=60) as tools:
        yield Session(
            tools=lambda: [{"name": tool.name, "description": tool.description, "schema": tool.args_schema}
                           for tool in tools],
            call=lambda name, arguments, _: by_name(tools, name).run(**arguments),
        )


main(connect)
