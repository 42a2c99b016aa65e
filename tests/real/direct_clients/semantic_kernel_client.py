"""Semantic Kernel: `MCPStdioPlugin`, whose functions have the names of the tools.

It lists the tools again within its handler of `list_changed`, which waits for an answer that nothing reads then: after
the first such notification of any server, each request hangs. So the handler is left out here.
"""

from contextlib import asynccontextmanager

from semantic_kernel.connectors.mcp import MCPStdioPlugin
from session import Session, main


class Plugin(MCPStdioPlugin):
    async def message_handler(self, message):
        """Without the lists."""


@asynccontextmanager
async def connect(server):
    async with Plugin("dyn", server.command, args=server.args, env=server.env, request_timeout=60) as plugin:
        def tools():
            found = [getattr(plugin, name) for name in dir(plugin) if not name.startswith("_")]
            return [{"name": function.__kernel_function_name__, "description": function.__kernel_function_description__,
                     "parameters": function.__kernel_function_parameters__}
                    for function in found if hasattr(function, "__kernel_function_parameters__")]

        yield Session(
            tools=tools,
            call=lambda name, arguments, _: plugin.call_tool(name, **arguments),
            prompt=lambda name, arguments: plugin.get_prompt(name, **arguments),
        )


main(connect)
