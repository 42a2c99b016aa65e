#!/usr/bin/env python3
"""What a user notices of connections that send requests without a token, one right behind the other.

usage: strangers.py PROGRAM [CONNECTIONS...]
"""
import hashlib, json, os, re, socket, statistics, subprocess, sys, tempfile, threading, time

PROGRAM, COUNTS = sys.argv[1], [int(count) for count in sys.argv[2:]] or [0, 8, 100]
SECONDS, PIPELINED = 5, 64
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


def request(token):
    authorization = b"Authorization: Bearer " + token + b"\r\n" if token else b""
    return b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (authorization, len(BODY), BODY)


def flood(port, end, answered):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(0.5)
    open_requests = 0
    while time.time() < end:
        if open_requests < PIPELINED:
            connection.sendall(request(None) * PIPELINED)
            open_requests += PIPELINED
        try:
            count = connection.recv(1 << 16).count(b"HTTP/1.1 401")
        except TimeoutError:
            continue
        open_requests -= count
        answered.append(count)


with tempfile.TemporaryDirectory() as home:
    file = lambda name, value: open(os.path.join(home, name), "w").write(json.dumps(value))
    file("servers.json", {"mcpServers": {}})
    file("tokens.json", {"tokens": [{"name": "ann", "sha256": hashlib.sha256(b"ann").hexdigest()}]})
    args = ["--config", "servers.json", "serve", "--http", "127.0.0.1:0", "--tokens", "tokens.json"]
    program = subprocess.Popen([PROGRAM, *args], cwd=home, stderr=subprocess.PIPE, text=True, env={"HOME": home, "PATH": "/usr/bin:/bin"})
    for line in program.stderr:
        if "listening" in line:
            port = int(re.search(r"address=[0-9.]+:(\d+)", line)[1])
        if "requests are served" in line:
            break
    for count in COUNTS:
        end, answered, times = time.time() + SECONDS, [], []
        strangers = [threading.Thread(target=flood, args=(port, end, answered)) for _ in range(count)]
        [stranger.start() for stranger in strangers]
        user = socket.create_connection(("127.0.0.1", port))
        while time.time() < end:
            begin = time.perf_counter()
            user.sendall(request(b"ann"))
            assert user.recv(1 << 16).startswith(b"HTTP/1.1 200")
            times.append((time.perf_counter() - begin) * 1000)
            time.sleep(0.002)
        [stranger.join() for stranger in strangers]
        p99 = statistics.quantiles(times, n=100)[98]
        print(f"{count} strangers: p50 {statistics.median(times):.2f} ms, p99 {p99:.2f} ms; {sum(answered) / SECONDS:.0f} refusals a second")
    program.kill()
