"""The server of a model that makes the calls of a plan: python fake_model.py PLAN.json LOG

The plan is a list of {"call": {"name", "arguments"}, "until"}; the call has "namespace", too, where the API has one. Each
response makes the next call, or the same one again if its result lacks the text "until"; the last one is DONE. It serves
OpenAI's chat completions and responses and Gemini's generateContent on a free port of loopback, which it prints. It
appends the results that the agent sends to LOG, one JSON value a line, and the whole requests to LOG.requests.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], encoding="utf-8") as file:
    PLAN = json.load(file)
DONE = "DONE: all calls of the plan are made"


def next_call(results):
    """The call to make after these results. `None`: all are made."""
    made = 0
    for result in results:
        made += (PLAN[made]["until"] or "") in json.dumps(result)
    return PLAN[made]["call"] if made < len(PLAN) else None


def chat(body):
    """The events of a chat completion, and the results in the request."""
    results = [m["content"] for m in body.get("messages", []) if m.get("role") == "tool"]
    # Agents request titles and summaries, too, without tools.
    call = next_call(results) if body.get("tools") else None
    if call:
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        tool_call = {"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}
        delta, reason = {"role": "assistant", "tool_calls": [tool_call]}, "tool_calls"
    else:
        delta, reason = {"role": "assistant", "content": DONE}, "stop"
    base = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    events = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"], results


def responses(body):
    """The events of a response, and the results in the request."""
    results = [i.get("output") for i in body.get("input", []) if i.get("type") == "function_call_output"]
    call = next_call(results)
    if call:
        item = {"type": "function_call", "id": f"fc{len(results)}", "call_id": f"call_{len(results)}", **call}
        item["arguments"] = json.dumps(call["arguments"])
    else:
        item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": DONE}]}
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    events = [
        ("response.created", {"response": {"id": "r"}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {"id": "r", "usage": {**usage, "total_tokens": 2}}}),
    ]
    lines = [f"event: {kind}\ndata: {json.dumps({'type': kind, **event})}\n\n" for kind, event in events]
    return lines, results


def gemini(body):
    """The events of Gemini's streamGenerateContent, and the results in the request."""
    parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    call = next_call(results) if body.get("tools") else None
    if call:
        part = {"functionCall": {"name": call["name"], "args": call["arguments"]}}
    else:
        part = {"text": DONE}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': usage})}\n\n"], results


def api_of(path):
    """The API of a request."""
    if "GenerateContent" in path:
        return gemini
    return responses if path.endswith("/responses") else chat


def append(path, values):
    """Appends values to a file, one a line."""
    with open(path, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(value) + "\n" for value in values)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_args):
        pass

    def answer(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.answer("application/json", '{"object":"list","data":[],"models":[]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        events, results = api_of(self.path)(body)
        append(sys.argv[2], results[-1:])
        append(sys.argv[2] + ".requests", [body])
        self.answer("text/event-stream", "".join(events))


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
