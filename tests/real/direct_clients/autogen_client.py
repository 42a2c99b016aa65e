"""AutoGen: `McpWorkbench`."""

from contextlib import asynccontextmanager

from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
from session import Session, main


@asynccontextmanager
async def connect(server):
    params = StdioServerParams(command=server.command, args=server.args, env=server.env, read_timeout_seconds=60)
    async with McpWorkbench(params) as workbench:
        yield Session(
            tools=workbench.list_tools,
            call=lambda name, arguments, _: workbench.call_tool(name, arguments),
            resources=workbench.list_resources,
            read=workbench.read_resource,
            prompts=workbench.list_prompts,
            prompt=workbench.get_prompt,
        )


main(connect)
