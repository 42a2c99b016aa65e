"""An MCP server on stdin and stdout whose answers are the files of a directory: `tools.0.json` is the first page of
`tools/list`, and so on. Its calls return "ok", but those of four tools: `json` returns JSON, `large` 1 MB, `slow` nothing,
and `flood` sends progress without an answer. With `--changes`, it says after each list that its tools changed. With
`--asks`, it sends requests without end at its first call, and reads nothing any more. It parses no JSON but that of small
requests."""

import json
import os
import pathlib
import sys

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "skills/list": "skills",
}
directory = pathlib.Path(sys.argv[1])
changes = "--changes" in sys.argv
out = sys.stdout.buffer
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"' + b"x" * 1000 + b'"}}\n'


def page_of(member, cursor):
    page = directory / f"{member}.{cursor}.json"
    return page.read_bytes() if page.exists() else b'{"%s":[]}' % member.encode()


for line in open(0, "rb", buffering=1 << 20):
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "tools/call" and "--asks" in sys.argv:
        os.execvp("yes", ["yes", json.dumps({"jsonrpc": "2.0", "id": "x" * 500, "method": "ping"})])
    if method == "initialize":
        result = (directory / "initialize.json").read_bytes()
    elif method in LISTS:
        result = page_of(LISTS[method], params.get("cursor", "0"))
    elif method == "tools/call" and params["name"] == "slow":
        continue
    elif method == "tools/call" and params["name"] == "flood":
        token = json.dumps(params.get("_meta", {}).get("progressToken")).encode()
        out.write(PROGRESS % token * 6000)
        out.flush()
        continue
    elif method == "tools/call" and params["name"] == "json":
        result = b'{"content":[{"type":"text","text":"{\\"a\\":[1]}"}]}'
    elif method == "tools/call" and params["name"] == "large":
        result = b'{"content":[{"type":"text","text":"%s"}]}' % (b"x" * (1 << 20))
    elif method == "resources/read":
        result = b'{"contents":[{"uri":"x","text":"ok"}]}'
    elif method == "prompts/get":
        result = b'{"messages":[]}'
    else:
        result = b'{"content":[{"type":"text","text":"ok"}]}'
    out.write(b'{"jsonrpc":"2.0","id":%s,"result":' % json.dumps(message["id"]).encode() + result + b"}\n")
    if changes and method == "tools/list":
        out.write(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
    out.flush()
