"""A server with the Python SDK, 1.x or 2.x, whichever the interpreter has: python server_py.py [http]

With "http" it listens on a free port, which it prints, and each path is an endpoint with other settings.
"""

import asyncio
import socket
import sys
from contextlib import AsyncExitStack
from typing import Annotated

try:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
    from mcp.server.mcpserver.resources import TextResource
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.server.fastmcp.resources import TextResource

import uvicorn
from mcp import types
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


class Sum(BaseModel):
    sum: float


class Name(BaseModel):
    name: str


QUESTION = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="A word?"))
IS_V1 = Server.__name__ == "FastMCP"
changes = []


def add_tools_v1(server):
    @server.tool()
    async def greet(ctx: Context) -> str:
        """Asks for a name."""
        answer = await ctx.elicit("Your name?", Name)
        return f"Hello, {answer.data.name}." if answer.action == "accept" else answer.action

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Asks for a word and a root."""
        word = await ctx.session.create_message([QUESTION], max_tokens=10, related_request_id=ctx.request_id)
        roots = await ctx.session.list_roots()
        return f"{word.content.text} in {roots.roots[0].uri}"


def add_tools_v2(server):
    """The SDK makes requests or input requests of these, depending on the revision."""

    async def name() -> Elicit[Name]:
        return Elicit("Your name?", Name)

    async def word() -> Sample:
        return Sample([QUESTION], max_tokens=10)

    async def roots() -> ListRoots:
        return ListRoots()

    @server.tool()
    async def greet(name: Annotated[Name, Resolve(name)]) -> str:
        """Asks for a name."""
        return f"Hello, {name.name}."

    @server.tool()
    async def ask(
        word: Annotated[types.CreateMessageResult, Resolve(word)],
        roots: Annotated[types.ListRootsResult, Resolve(roots)],
    ) -> str:
        """Asks for a word and a root."""
        return f"{word.content.text} in {roots.roots[0].uri}"


def create(**settings):
    server = Server("python", **settings)

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

    (add_tools_v1 if IS_V1 else add_tools_v2)(server)

    @server.tool()
    async def note(ctx: Context) -> str:
        """Logs."""
        await ctx.warning("noted", logger_name="notes")
        return "Noted."

    @server.tool()
    async def change(ctx: Context) -> str:
        """Changes the resources."""
        changes.append(f"fixture://more/{len(changes)}")
        server.add_resource(TextResource(uri=changes[-1], name=changes[-1], text="more"))
        await ctx.session.send_resource_list_changed()
        if not IS_V1:  # For subscriptions without a session.
            await ctx.notify_resources_changed()
        return "Changed."

    @server.resource("fixture://greeting", mime_type="text/plain")
    def greeting() -> str:
        return "hällo 🦀"

    @server.prompt()
    def poem(about: str) -> str:
        return f"A poem about {about}."

    return server


ENDPOINTS = {
    "sessions": {},
    "sessions-json": {"json_response": True},
    "stateless": {"stateless_http": True},
    "stateless-json": {"stateless_http": True, "json_response": True},
}


class StatelessOnly:
    """Refuses other revisions than 2026-07-28, for which the SDK has no setting."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if dict(scope["headers"]).get(b"mcp-protocol-version") == b"2026-07-28":
            return await self.app(scope, receive, send)
        data = {"supported": ["2026-07-28"]}
        error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        response = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
        await response(scope, receive, send)


async def listen():
    routes = []
    async with AsyncExitStack() as running:
        for path, settings in ENDPOINTS.items():
            settings = {"streamable_http_path": "/", **settings}
            server = create(**settings) if IS_V1 else create()
            app = server.streamable_http_app() if IS_V1 else server.streamable_http_app(**settings)
            await running.enter_async_context(server.session_manager.run())
            endpoint = app.routes[0].endpoint
            routes.append(Route(f"/{path}", endpoint))
            if not IS_V1 and "stateless" in path:
                routes.append(Route("/" + path.replace("stateless", "2026-07-28"), StatelessOnly(endpoint)))
        routes += create().sse_app().routes
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(Starlette(routes=routes), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listener])


if sys.argv[1:] == ["http"]:
    asyncio.run(listen())
else:
    create().run()
