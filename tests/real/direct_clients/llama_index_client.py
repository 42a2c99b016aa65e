"""LlamaIndex: `BasicMCPClient`, and the tools of `McpToolSpec` for an agent."""

from contextlib import asynccontextmanager

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from session import Session, main


@asynccontextmanager
async def connect(server):
    client = BasicMCPClient(server.command, args=server.args, env=server.env, timeout=60)
    tools = await McpToolSpec(client).to_tool_list_async()

    async def call(name, arguments, _):
        if name in [tool.metadata.name for tool in tools]:
            tool = next(tool for tool in tools if tool.metadata.name == name)
            return await tool.acall(**arguments)
        return await client.call_tool(name, arguments)

    yield Session(
        tools=lambda: [tool.metadata for tool in tools],
        call=call,
        resources=client.list_resources,
        read=client.read_resource,
        prompts=client.list_prompts,
        prompt=client.get_prompt,
    )


main(connect)
