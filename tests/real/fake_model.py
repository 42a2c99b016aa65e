"""The server of a model that makes the calls of a plan: python fake_model.py PLAN.json LOG

The plan is a list of {"call": {"name", "arguments"}, "until"}; the call has "namespace", too, where the API has one. Each
response makes the next call, or the same one again if its result lacks the text "until"; the last one is DONE. It serves
Anthropic's messages, OpenAI's chat completions and responses, and Gemini's generateContent on a free port of loopback,
which it prints. It appends the results that the agent sends to LOG, one JSON value a line, and the whole requests to
LOG.requests.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DONE = "DONE: all calls of the plan are made"


class Plan:
    """The calls of a file, in their order."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.steps = json.load(file)

    def next_call(self, _body, results):
        """The call to make after these results. `None`: all are made."""
        made = 0
        for result in results:
            made += (self.steps[made]["until"] or "") in json.dumps(result)
        return self.steps[made]["call"] if made < len(self.steps) else None


class Messages:
    """Anthropic's messages."""

    @staticmethod
    def results(body):
        blocks = [block for message in body.get("messages", []) if isinstance(message["content"], list)
                  for block in message["content"]]
        return [block.get("content") for block in blocks if block.get("type") == "tool_result"]

    @staticmethod
    def events(call, number):
        if call:
            start = {"type": "tool_use", "id": f"toolu_{number}", "name": call["name"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": DONE}
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [], "model": "fake",
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        reason = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
        events = [("message_start", {"message": message}),
                  ("content_block_start", {"index": 0, "content_block": start}),
                  ("content_block_delta", {"index": 0, "delta": delta}),
                  ("content_block_stop", {"index": 0}),
                  ("message_delta", {"delta": reason, "usage": {"output_tokens": 1}}),
                  ("message_stop", {})]
        return [f"event: {kind}\ndata: {json.dumps({'type': kind, **event})}\n\n" for kind, event in events]


class Chat:
    """OpenAI's chat completions."""

    @staticmethod
    def results(body):
        return [m["content"] for m in body.get("messages", []) if m.get("role") == "tool"]

    @staticmethod
    def events(call, number):
        if call:
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            tool_call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
            delta, reason = {"role": "assistant", "tool_calls": [tool_call]}, "tool_calls"
        else:
            delta, reason = {"role": "assistant", "content": DONE}, "stop"
        base = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        events = [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        return [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]


class Responses:
    """OpenAI's responses."""

    @staticmethod
    def results(body):
        kinds = {"function_call_output": "output", "tool_search_output": "tools"}
        return [i.get(kinds[i["type"]]) for i in body.get("input", []) if i.get("type") in kinds]

    @staticmethod
    def events(call, number):
        if call and call["name"] == "tool_search":
            item = {"type": "tool_search_call", "id": f"ts{number}", "call_id": f"call_{number}",
                    "execution": "client", "status": "completed", "arguments": call["arguments"]}
        elif call:
            item = {"type": "function_call", "id": f"fc{number}", "call_id": f"call_{number}", **call}
            item["arguments"] = json.dumps(call["arguments"])
        else:
            content = [{"type": "output_text", "text": DONE}]
            item = {"type": "message", "id": "m", "role": "assistant", "content": content}
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
        events = [
            ("response.created", {"response": {"id": "r"}}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": {"id": "r", "usage": {**usage, "total_tokens": 2}}}),
        ]
        return [f"event: {kind}\ndata: {json.dumps({'type': kind, **event})}\n\n" for kind, event in events]


class Gemini:
    """Gemini's streamGenerateContent."""

    @staticmethod
    def results(body):
        parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
        return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]

    @staticmethod
    def events(call, _number):
        part = {"functionCall": {"name": call["name"], "args": call["arguments"]}} if call else {"text": DONE}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return [f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': usage})}\n\n"]


def api_of(path):
    """The API of a request."""
    path = path.split("?")[0]
    if "GenerateContent" in path:
        return Gemini
    if path.endswith("/messages"):
        return Messages
    return Responses if path.endswith("/responses") else Chat


def append(path, values):
    """Appends values to a file, one a line."""
    with open(path, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(value) + "\n" for value in values)


def handler(model, log):
    """The handler of a server whose model decides with `next_call(body, results)`."""

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
            api = api_of(self.path)
            results = api.results(body)
            # Agents request titles and summaries, too, without tools.
            call = model.next_call(body, results) if body.get("tools") else None
            append(log, results[-1:])
            append(log + ".requests", [body])
            self.answer("text/event-stream", "".join(api.events(call, len(results))))

    return Handler


def serve(model, log):
    """Serves the model until the process is killed. Prints the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(model, log))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Plan(sys.argv[1]), sys.argv[2])
