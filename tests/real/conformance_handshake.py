"""The server for the conformance suite and the revisions with a handshake, made with the official Python SDK 1.x. The
scenarios of the suite require its names."""
import asyncio, base64
from mcp.server.fastmcp import FastMCP, Context, Image
from mcp.server.fastmcp.prompts import base
from mcp import types
from pydantic import BaseModel, AnyUrl
mcp = FastMCP("fixture")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
P64 = base64.b64encode(PNG).decode()
@mcp.tool()
def test_simple_text() -> str:
    """Text"""
    return "This is a simple text response for testing."
@mcp.tool()
def test_image_content() -> list[types.ContentBlock]:
    """Image"""
    return [types.ImageContent(type="image", data=P64, mimeType="image/png")]
@mcp.tool()
def test_audio_content() -> list[types.ContentBlock]:
    """Audio"""
    return [types.AudioContent(type="audio", data=WAV, mimeType="audio/wav")]
def emb(uri, text, mime): return types.EmbeddedResource(type="resource", resource=types.TextResourceContents(uri=AnyUrl(uri), mimeType=mime, text=text))
@mcp.tool()
def test_embedded_resource() -> list[types.ContentBlock]:
    """Embedded"""
    return [emb("test://embedded-resource", "This is an embedded resource content.", "text/plain")]
@mcp.tool()
def test_multiple_content_types() -> list[types.ContentBlock]:
    """Mixed"""
    return [types.TextContent(type="text", text="Multiple content types test:"), types.ImageContent(type="image", data=P64, mimeType="image/png"), emb("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")]
@mcp.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs"""
    for m in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", m, related_request_id=ctx.request_id); await asyncio.sleep(0.05)
    return "done"
@mcp.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Progress"""
    for n in (0, 50, 100): await ctx.report_progress(n, 100); await asyncio.sleep(0.05)
    return "done"
@mcp.tool()
def test_error_handling() -> str:
    """Fails"""
    raise ValueError("This tool intentionally returns an error for testing")
@mcp.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Samples"""
    r = await ctx.session.create_message([types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))], max_tokens=100)
    return f"LLM response: {r.content.text}"
class Answer(BaseModel):
    username: str
    email: str
@mcp.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Elicits"""
    r = await ctx.elicit(message=message, schema=Answer)
    return f"User response: {r.action}"
async def raw_elicit(ctx, schema):
    r = await ctx.session.elicit("Please answer", schema, related_request_id=ctx.request_id)
    return f"Elicitation completed: action={r.action}, content={r.content}"
@mcp.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Defaults"""
    return await raw_elicit(ctx, {"type": "object", "properties": {"name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30}, "score": {"type": "number", "default": 95.5}, "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}, "verified": {"type": "boolean", "default": True}}, "required": []})
@mcp.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Enums"""
    o = ["option1", "option2", "option3"]; t = [{"const": f"value{i}", "title": n} for i, n in ((1, "First Option"), (2, "Second Option"), (3, "Third Option"))]
    return await raw_elicit(ctx, {"type": "object", "properties": {"untitledSingle": {"type": "string", "enum": o}, "titledSingle": {"type": "string", "oneOf": t}, "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}, "untitledMulti": {"type": "array", "items": {"type": "string", "enum": o}}, "titledMulti": {"type": "array", "items": {"anyOf": t}}}, "required": []})
@mcp.resource("test://static-text", mime_type="text/plain")
def static_text() -> str: return "This is the content of the static text resource."
@mcp.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes: return PNG
@mcp.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str: return "Watched resource content"
@mcp.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str: return '{"id":"%s","templateTest":true,"data":"Data for ID: %s"}' % (id, id)
@mcp.prompt()
def test_simple_prompt() -> str:
    """Simple"""
    return "This is a simple prompt for testing."
@mcp.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Arguments"""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
@mcp.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[base.Message]:
    """Embedded"""
    return [base.UserMessage(emb(resourceUri, "Embedded resource content for testing.", "text/plain")), base.UserMessage("Please process the embedded resource above.")]
@mcp.prompt()
def test_prompt_with_image() -> list[base.Message]:
    """Image"""
    return [base.UserMessage(types.ImageContent(type="image", data=P64, mimeType="image/png")), base.UserMessage("Please analyze the image above.")]
@mcp.completion()
async def complete(ref, argument, context): return types.Completion(values=["paris", "park", "party"], total=150, hasMore=False)
low = mcp._mcp_server
@low.subscribe_resource()
async def sub(uri): pass
@low.unsubscribe_resource()
async def unsub(uri): pass
@low.set_logging_level()
async def level(l): pass
mcp.run()
