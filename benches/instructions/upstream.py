"""An MCP server on stdin and stdout whose tool `echo` returns its arguments. It parses no JSON."""

import re
import sys

ID = re.compile(rb'"id":(\d+)')
TOOL = (
    b'{"name":"echo","description":"Returns its arguments.","inputSchema":{"type":"object","properties":'
    b'{"text":{"type":"string"},"rows":{"type":"array","items":{"type":"object","properties":'
    b'{"id":{"type":"integer"},"name":{"type":"string"},"score":{"type":"number"}}}}}}}'
)
HANDSHAKE = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}'

for line in open(0, "rb", buffering=1 << 20):
    head = line[:200]
    found = ID.search(head)
    if not found:
        continue
    if b'"initialize"' in head:
        result = HANDSHAKE
    elif b'"tools/list"' in head:
        result = b'{"tools":[' + TOOL + b"]}"
    else:
        start = line.index(b'"arguments":') + len(b'"arguments":')
        # The arguments are the last member, before the braces of the params and the request.
        end = line.rindex(b"}}")
        result = b'{"content":[{"type":"text","text":"ok"}],"structuredContent":' + line[start:end] + b"}"
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":' + found[1] + b',"result":' + result + b"}\n")
    sys.stdout.buffer.flush()
