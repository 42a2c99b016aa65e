"""A server with the Python SDK, 1.x or 2.x, whichever the interpreter has: python server_py.py"""

import asyncio

try:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server

from mcp import types
from pydantic import BaseModel

server = Server("python")


class Sum(BaseModel):
    sum: float


class Name(BaseModel):
    name: str


@server.tool(annotations=types.ToolAnnotations(**{"readOnlyHint": True}))
def add(a: float, b: float) -> Sum:
    """Adds two numbers."""
    if a < 0:
        raise ValueError("No number below zero, please.")
    return Sum(sum=a + b)


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts."""
    for progress in range(1, to + 1):
        await ctx.report_progress(progress, to, f"step {progress}")
        await asyncio.sleep(0.02)
    return f"Counted to {to}."


@server.tool()
async def greet(ctx: Context) -> str:
    """Asks for a name."""
    answer = await ctx.elicit("Your name?", Name)
    return f"Hello, {answer.data.name}." if answer.action == "accept" else answer.action


@server.resource("fixture://greeting", mime_type="text/plain")
def greeting() -> str:
    return "hällo 🦀"


@server.prompt()
def poem(about: str) -> str:
    return f"A poem about {about}."


server.run()
