"""smolagents: the tools of `MCPClient`, which uses mcpadapt."""

from contextlib import asynccontextmanager

from mcp import StdioServerParameters
from session import Session, by_name, main
from smolagents import MCPClient


@asynccontextmanager
async def connect(server):
    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    with MCPClient(params, adapter_kwargs={"connect_timeout": 60}, structured_output=True) as tools:
        yield Session(
            tools=lambda: [{"name": tool.name, "description": tool.description, "inputs": tool.inputs,
                            "output_type": tool.output_type, "output_schema": getattr(tool, "output_schema", None)}
                           for tool in tools],
            call=lambda name, arguments, _: by_name(tools, name)(**arguments),
        )


main(connect)
