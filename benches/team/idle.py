#!/usr/bin/env python3
"""The anonymous memory of `serve --http` with idle connections, each of which has made a request.

usage: idle.py PROGRAM [--silent] [CONNECTIONS...]

With --silent, the connections have sent nothing. At the end another client asks.
"""
import os, re, resource, socket, subprocess, sys, tempfile

SILENT = "--silent" in sys.argv
PROGRAM, COUNTS = sys.argv[1], [int(count) for count in sys.argv[2:] if count != "--silent"] or [0, 1000, 10_000]
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
REQUEST = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


def anonymous_kb(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", open(f"/proc/{pid}/status").read())[1])


with tempfile.TemporaryDirectory() as home:
    config = os.path.join(home, "servers.json")
    open(config, "w").write('{"mcpServers": {}}')
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    program = subprocess.Popen([PROGRAM, "--config", config, "serve", "--http", "127.0.0.1:0", "--max-rate", "1000000"], stderr=subprocess.PIPE, text=True, env={"HOME": home, "PATH": "/usr/bin:/bin"})
    for line in program.stderr:
        if "listening" in line:
            port = int(re.search(r"address=[0-9.]+:(\d+)", line)[1])
        if "requests are served" in line:
            break
    connections = []
    for count in COUNTS:
        while len(connections) < count:
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            if not SILENT:
                connection.sendall(REQUEST)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            connections.append(connection)
        print(f"{count} connections: {anonymous_kb(program.pid) / 1000:.1f} MB anonymous")
    last = socket.create_connection(("127.0.0.1", port), timeout=30)
    last.sendall(REQUEST)
    assert last.recv(65536).startswith(b"HTTP/1.1 200"), "another client is served"
    program.kill()
