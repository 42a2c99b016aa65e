"""The server for the conformance suite and revision 2026-07-28, made with the official Python SDK 2.x (lowlevel). The
scenarios of the suite require its names. The SDK can only declare the tasks extension, so this file implements tasks.
`initialize` is refused, so every client uses that revision."""
import asyncio, uuid
from datetime import datetime, timezone
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

TASKS = "io.modelcontextprotocol/tasks"
NOTHING = {"type": "object", "properties": {}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
BUS = InMemorySubscriptionBus()
EXTRA = {"tools": False, "prompts": False}
TOOLS, PROMPTS = {}, {}


def text(value): return {"type": "text", "text": value}
def text_result(value, **more): return {"content": [text(value)], **more}
def embedded(uri, value, mime): return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": value}}
def user(content): return {"role": "user", "content": content}
def elicit(message, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}
def sample(prompt, limit=100):
    return {"method": "sampling/createMessage", "params": {"messages": [user(text(prompt))], "maxTokens": limit}}
def required(requests, state=None):
    return {"resultType": "input_required", "inputRequests": requests, **({"requestState": state} if state else {})}
def answers(params):
    """The input responses, as in the message."""
    return params.model_dump(by_alias=True, exclude_none=True, mode="json").get("inputResponses") or {}
def declared(ctx): return ((ctx.params or {}).get("_meta") or {}).get("io.modelcontextprotocol/clientCapabilities") or {}
def demand(ctx, capabilities):
    for name, value in capabilities.items():
        if name not in declared(ctx) or any(key not in declared(ctx)[name] for key in value):
            raise MCPError(-32021, f"needs {name}", {"requiredCapabilities": capabilities})


def tool(schema=NOTHING, name=None):
    def register(call):
        TOOLS[name or call.__name__] = (schema, call)
        return call
    return register
def constant(name, *content, **more): TOOLS[name] = (NOTHING, lambda ctx, params: {"content": list(content), **more})


constant("test_simple_text", text("This is a simple text response for testing."))
constant("test_image_content", {"type": "image", "data": PNG, "mimeType": "image/png"})
constant("test_audio_content", {"type": "audio", "data": WAV, "mimeType": "audio/wav"})
constant("test_embedded_resource", embedded("test://embedded-resource", "This is an embedded resource content.", "text/plain"))
constant("test_multiple_content_types", text("Multiple content types test:"), {"type": "image", "data": PNG, "mimeType": "image/png"},
         embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"))
constant("test_error_handling", text("This tool intentionally returns an error for testing"), isError=True)
# For `json-schema-2020-12` and `http-custom-header-server-validation`.
TOOLS["json_schema_2020_12_tool"] = ({
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]}, "then": {"required": ["phone"]}, "else": {"required": ["email"]},
    "additionalProperties": False}, lambda ctx, params: text_result("done"))
TOOLS["test_custom_header"] = ({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
                               lambda ctx, params: text_result(params.arguments["region"]))


@tool()
async def test_tool_with_progress(ctx, params):
    for step in (0, 50, 100):
        await ctx.session.report_progress(step, 100)
        await asyncio.sleep(0.05)
    return text_result("done")
@tool()
async def test_logging_tool(ctx, params):
    await ctx.session.send_log_message("info", "logged", related_request_id=ctx.request_id)
    return text_result("done")
@tool()
def test_missing_capability(ctx, params):
    demand(ctx, {"sampling": {}})
    return text_result("done")
@tool()
async def test_trigger_tool_change(ctx, params):
    EXTRA["tools"] = not EXTRA["tools"]
    await BUS.publish(ToolsListChanged())
    return text_result("changed")
@tool()
async def test_trigger_prompt_change(ctx, params):
    EXTRA["prompts"] = not EXTRA["prompts"]
    await BUS.publish(PromptsListChanged())
    return text_result("changed")


def input_tool(name, requests, then, state=None):
    """A tool that requests input until it has all answers."""
    def call(ctx, params):
        given = answers(params)
        return text_result(then(given)) if all(key in given for key in requests) else required(requests, state)
    TOOLS[name] = (NOTHING, call)


NAME = {"user_name": elicit("What is your name?", name={"type": "string"})}
CONFIRM = {"confirm": elicit("Please confirm", ok={"type": "boolean"})}
input_tool("test_input_required_result_elicitation", NAME, lambda given: f"Hello, {given['user_name']['content']['name']}!")
input_tool("test_streaming_elicitation", NAME, lambda given: "done")
input_tool("test_input_required_result_sampling", {"capital_question": sample("What is the capital of France?")}, lambda given: given["capital_question"]["content"]["text"])
input_tool("test_input_required_result_list_roots", {"client_roots": {"method": "roots/list", "params": {}}}, lambda given: given["client_roots"]["roots"][0]["uri"])
input_tool("test_input_required_result_request_state", CONFIRM, lambda given: "state-ok", "state")
input_tool("test_input_required_result_tampered_state", CONFIRM, lambda given: "state-ok", "state")
input_tool("test_input_required_result_multiple_inputs", {**NAME, "greeting": sample("Generate a greeting", 50), "client_roots": {"method": "roots/list", "params": {}}}, lambda given: "done", "state")
@tool()
def test_input_required_result_multi_round(ctx, params):
    if params.request_state == "step2" and "step2" in answers(params):
        return text_result("done")
    if params.request_state == "step1" and "step1" in answers(params):
        return required({"step2": elicit("Step 2: What is your favorite color?", color={"type": "string"})}, "step2")
    return required({"step1": elicit("Step 1: What is your name?", name={"type": "string"})}, "step1")
@tool()
def test_input_required_result_capabilities(ctx, params):
    requests = {"elicitation": elicit("Name?", name={"type": "string"}), "sampling": sample("Say hello")}
    return required({key: request for key, request in requests.items() if key in declared(ctx)})


class Task:
    """A task: `run` returns its result and runs in the background; `requests` has its open input requests."""
    kept = {}

    def __init__(self, run):
        self.id, self.created = uuid.uuid4().hex, self.now()
        self.requests, self.given, self.changed = {}, {}, asyncio.Event()
        self.state = {"status": "working"}
        Task.kept[self.id] = self
        self.running = asyncio.create_task(self.settle(run))

    @staticmethod
    def now(): return datetime.now(timezone.utc).isoformat()

    async def settle(self, run):
        try:
            self.state = {"status": "completed", "result": {**await run(self), "resultType": "complete"}}
        except MCPError as error:
            self.state = {"status": "failed", "error": {"code": error.error.code, "message": error.error.message}}
        except asyncio.CancelledError:
            self.state = {"status": "cancelled"}

    async def request_input(self, requests):
        self.requests = dict(requests)
        self.state = {"status": "input_required"}
        while self.requests:
            self.changed.clear()
            await self.changed.wait()
        self.state = {"status": "working"}
        return self.given

    def status(self):
        more = {"inputRequests": self.requests} if self.state["status"] == "input_required" else {}
        return {"taskId": self.id, "createdAt": self.created, "lastUpdatedAt": self.now(), "ttlMs": 60000, "pollIntervalMs": 100, **self.state, **more}


def as_task(ctx, run):
    task = Task(run)
    return {"resultType": "task", **task.status()}
@tool({"type": "object", "properties": {"name": {"type": "string"}}})
def greet(ctx, params):
    return text_result(f"Hello, {(params.arguments or {}).get('name')}!")
@tool({"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}})
async def slow_compute(ctx, params):
    seconds = params.arguments["seconds"]
    async def run(task):
        await asyncio.sleep(seconds)
        return text_result(f"Computed for {seconds} s.")
    return as_task(ctx, run) if TASKS in declared(ctx).get("extensions", {}) else await run(None)
def always_a_task(name, run, schema=NOTHING):
    def call(ctx, params):
        demand(ctx, {"extensions": {TASKS: {}}})
        return as_task(ctx, run)
    TOOLS[name] = (schema, call)
async def failing(task):
    await asyncio.sleep(0.2)
    return text_result("The job failed.", isError=True)
async def broken(task): raise MCPError(-32603, "The job broke.")
async def confirmed(task):
    await task.request_input({"confirm": elicit("Delete it?", confirm={"type": "boolean"})})
    return text_result("Deleted.")
async def two_inputs(task):
    await task.request_input({"first": elicit("First?", name={"type": "string"}), "second": elicit("Second?", name={"type": "string"})})
    return text_result("Both.")
always_a_task("failing_job", failing)
always_a_task("protocol_error_job", broken)
always_a_task("confirm_delete", confirmed, {"type": "object", "properties": {"filename": {"type": "string"}}})
always_a_task("multi_input", two_inputs)
@tool()
def test_tool_with_task(ctx, params):
    given = answers(params)
    demand(ctx, {"extensions": {TASKS: {}}})
    if "user_name" not in given:
        return required(NAME, "asked")
    async def run(task): return text_result(f"Hello, {given['user_name']['content']['name']}!")
    return as_task(ctx, run)


class OfTask(types.RequestParams):
    model_config = {"extra": "allow"}
def task_method(act):
    async def handle(ctx, params):
        demand(ctx, {"extensions": {TASKS: {}}})
        task = Task.kept.get(ctx.params.get("taskId"))
        if task is None:
            raise MCPError(-32602, "Unknown task")
        return act(task, ctx.params) or {"resultType": "complete"}
    return handle
def update(task, params):
    for key in list(params.get("inputResponses", {})):
        if task.requests.pop(key, None):
            task.given[key] = params["inputResponses"][key]
    task.changed.set()


PROMPTS.update({
    "test_simple_prompt": ([], lambda args: [user(text("This is a simple prompt for testing."))]),
    "test_prompt_with_arguments": (["arg1", "arg2"], lambda args: [user(text(f"Prompt with arguments: arg1='{args['arg1']}', arg2='{args['arg2']}'"))]),
    "test_prompt_with_embedded_resource": (["resourceUri"], lambda args: [user(embedded(args["resourceUri"], "Embedded resource content for testing.", "text/plain")), user(text("Please process the embedded resource above."))]),
    "test_prompt_with_image": ([], lambda args: [user({"type": "image", "data": PNG, "mimeType": "image/png"}), user(text("Please analyze the image above."))]),
    "test_input_required_result_prompt": ([], None),
})
RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}


async def list_tools(ctx, params):
    names = [*TOOLS, *(["test_added_tool"] if EXTRA["tools"] else [])]
    return {"tools": [{"name": name, "description": name, "inputSchema": TOOLS.get(name, (NOTHING,))[0]} for name in names]}
async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(-32602, f"Unknown tool: {params.name}")
    result = TOOLS[params.name][1](ctx, params)
    return await result if asyncio.iscoroutine(result) else result
async def list_prompts(ctx, params):
    listed = {**PROMPTS, **({"test_added_prompt": ([], None)} if EXTRA["prompts"] else {})}
    return {"prompts": [{"name": name, "description": name, "arguments": [{"name": arg, "required": True} for arg in args]} for name, (args, _) in listed.items()]}
async def get_prompt(ctx, params):
    if params.name not in PROMPTS:
        raise MCPError(-32602, f"Unknown prompt: {params.name}")
    if params.name == "test_input_required_result_prompt":
        context = answers(params).get("user_context")
        if context is None:
            return required({"user_context": elicit("What context should the prompt use?", context={"type": "string"})})
        return {"messages": [user(text(context["content"]["context"]))]}
    return {"messages": PROMPTS[params.name][1](params.arguments or {})}
async def list_resources(ctx, params):
    return {"resources": [{"uri": uri, "name": uri, "mimeType": content["mimeType"]} for uri, content in RESOURCES.items()]}
async def list_templates(ctx, params):
    return {"resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]}
async def read_resource(ctx, params):
    uri = str(params.uri)
    if uri.startswith("test://template/"):
        key = uri.split("/")[3]
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": f'{{"id":"{key}","templateTest":true,"data":"Data for ID: {key}"}}'}]}
    if uri not in RESOURCES:
        raise MCPError(-32602, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
async def complete(ctx, params):
    return {"completion": {"values": ["paris", "park", "party"], "total": 150, "hasMore": False}}
async def refuse_initialize(ctx, call_next):
    if ctx.method == "initialize":
        raise MCPError(-32022, "Unsupported protocol version", {"supported": ["2026-07-28"], "requested": ctx.params["protocolVersion"]})
    return await call_next(ctx)


def with_result_type(handle):
    """Adds the result type to a plain dict. The SDK adds it only to its own models."""
    async def completed(ctx, params): return {"resultType": "complete", **await handle(ctx, params)}
    return completed


HINTED = ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
server = Server(
    "fixture", version="1.0.0", cache_hints={method: CacheHint(1000, "public") for method in HINTED},
    on_list_tools=with_result_type(list_tools), on_call_tool=with_result_type(call_tool), on_list_prompts=with_result_type(list_prompts),
    on_get_prompt=with_result_type(get_prompt), on_list_resources=with_result_type(list_resources),
    on_list_resource_templates=with_result_type(list_templates), on_read_resource=with_result_type(read_resource),
    on_completion=with_result_type(complete), on_subscriptions_listen=ListenHandler(BUS),
)
server.extensions[TASKS] = {}
server.middleware += [refuse_initialize, RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixture")]
server.add_request_handler("tasks/get", OfTask, task_method(lambda task, _: {"resultType": "complete", **task.status()}))
server.add_request_handler("tasks/update", OfTask, task_method(update))
server.add_request_handler("tasks/cancel", OfTask, task_method(lambda task, _: task.running.cancel() and None))


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
asyncio.run(main())
