#!/usr/bin/env python3
"""What `serve --http` needs for more servers, users and profiles: anonymous memory, and processes of local servers.

usage: growth.py PROGRAM SCRIPTED_UPSTREAM

Each user has a token and calls one tool of each server. The figures are those of the program alone, without its servers.
"""
import hashlib, json, os, re, socket, subprocess, sys, tempfile
from pathlib import Path

PROGRAM, UPSTREAM = sys.argv[1:3]


def call(port, token, server):
    params = {"name": "call_dynamic_tool", "arguments": {"group": server, "name": "echo", "args": {"text": token}}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall((head + body).encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["content"][0]["text"] == token, answer


def descendants(pid):
    children = [int(child) for task in os.listdir(f"/proc/{pid}/task") for child in open(f"/proc/{pid}/task/{task}/children").read().split()]
    return children + [pid for child in children for pid in descendants(child)]


def measure(servers, users, profiles):
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        names = [f"s{n}" for n in range(servers)]
        config = {"mcpServers": {name: {"command": UPSTREAM, "all_users": True} for name in names}, "profiles": {f"p{n}": ["*"] for n in range(profiles)}, "settings": {"lazy_startup": "pure"}}
        (home / "servers.json").write_text(json.dumps(config))
        tokens = [{"name": f"u{n}", "sha256": hashlib.sha256(f"t{n}".encode()).hexdigest(), "profile": f"p{n % profiles}"} for n in range(users)]
        (home / "tokens.json").write_text(json.dumps({"tokens": tokens}))
        args = [PROGRAM, "--config", home / "servers.json", "serve", "--http", "127.0.0.1:0", "--tokens", home / "tokens.json"]
        program = subprocess.Popen(args, stderr=subprocess.PIPE, text=True, env={"HOME": str(home), "PATH": "/usr/bin:/bin"})
        try:
            for line in program.stderr:
                if "listening" in line:
                    port = int(re.search(r"address=[0-9.]+:(\d+)", line)[1])
                if "requests are served" in line:
                    break
            for n in range(users):
                for name in names:
                    call(port, f"t{n}", name)
            memory = int(re.search(r"RssAnon:\s+(\d+)", open(f"/proc/{program.pid}/status").read())[1])
            running = [pid for pid in descendants(program.pid) if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(UPSTREAM)]
            print(f"{servers} servers, {users} users, {profiles} profiles: {memory / 1000:.1f} MB anonymous, {len(running)} processes of servers", flush=True)
        finally:
            program.terminate()
            program.wait()


for servers, users, profiles in [(1, 1, 1), (10, 1, 1), (50, 1, 1), (10, 100, 1), (10, 1000, 1), (10, 10, 10)]:
    measure(servers, users, profiles)
