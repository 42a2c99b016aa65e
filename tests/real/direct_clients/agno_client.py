"""Agno: the functions of `MCPTools`.

It takes a command as text only if the program is one of those that it knows, such as npx and python; so the parameters
of the server are given as an object.
"""

from contextlib import asynccontextmanager

from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters
from session import NotOffered, Session, main


@asynccontextmanager
async def connect(server):
    params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    async with MCPTools(server_params=params, transport="stdio", timeout_seconds=60) as toolkit:

        async def call(name, arguments, _):
            if name not in toolkit.functions:
                raise NotOffered(name)
            return await toolkit.functions[name].entrypoint(**arguments)

        yield Session(
            tools=lambda: [{"name": function.name, "description": function.description, "schema": function.parameters}
                           for function in toolkit.functions.values()],
            call=call,
        )


main(connect)
