#!/usr/bin/env python3
"""Counts what one call through dynamic-mcp takes: instructions, allocations, writes; and the instructions of a start.

    benches/instructions/run.py [--check] [--program PATH]

The program runs under callgrind, twice for each row: once with N calls and once with more. The difference is divided by
the number of additional calls, so that the start does not count. The counts repeat within a few percent, whatever else
the machine does. `--check` fails if one exceeds its limit in limits.json.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 50
TEXT = "lorem ipsum dolor sit amet "
ROW = '{"id":12345,"name":"a name \\"quoted\\"","score":3.25,"tags":["a","b"],"active":true,"note":null}'


def text(size):
    return '{"text":"%s"}' % (TEXT * (size // len(TEXT) + 1))[:size]


def rows(size):
    return '{"rows":[%s]}' % ",".join([ROW] * (size // len(ROW)))


# The name of a row, its arguments, the calls in flight, and the calls that are counted.
ROWS = [
    ("100 B", text(100), 1, 500),
    ("100 B, with progress token", text(100), 1, 500),
    ("100 B, 64 in flight", text(100), 64, 1280),
    ("1 MB of text", text(1_000_000), 1, 60),
    ("1 MB of rows", rows(1_000_000), 1, 6),
]
# Starts with so many groups, to the answer of `tools/list` and the end.
STARTS = [1, 1000]
# The functions of the C library whose calls are counted.
ALLOCATIONS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"}
WRITES = {"write", "writev"}


class Client:
    def __init__(self, command, env):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=1 << 20, env=env)
        self.id = 0

    def send(self, method, params):
        self.id += 1
        self.write('{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % (self.id, method, params))

    def write(self, message):
        self.process.stdin.write(message.encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert b'"result":' in line[:100] and b'"isError":true' not in line[:400], line[:400]

    def initialize(self):
        self.send(
            "initialize",
            '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"count","version":"1"}}',
        )
        self.receive()
        self.write('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def calls(self, params, depth, count):
        """Makes `count` calls, sent in bursts of `depth` that are answered before the next one."""
        for _ in range(count // depth):
            ids = range(self.id + 1, self.id + 1 + depth)
            self.id += depth
            call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}\n'
            self.process.stdin.write("".join(call % (id, params(id)) for id in ids).encode())
            self.process.stdin.flush()
            for _ in range(depth):
                self.receive()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def counts_of(program, folder, row, calls, *options):
    """Runs the program for so many calls, with more options of callgrind. Returns instructions, allocations and writes of
    all of it."""
    name, arguments, depth, _ = row
    out = folder / "callgrind.out"
    config = folder / "servers.json"
    config.write_text(
        json.dumps({"mcpServers": {"echo": {"command": [sys.executable, str(HERE / "upstream.py")], "lazy_startup": "pure"}}})
    )
    valgrind = ["valgrind", "-q", "--tool=callgrind", "--trace-children=no", f"--callgrind-out-file={out}"]
    valgrind += ["--compress-strings=no", "--compress-pos=no", "--log-file=/dev/null", *options]
    library = folder / "own_exe.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "own_exe.c", "-ldl"], check=True)
    # Each run begins with an empty home, because what a first start writes there is no part of a call.
    home = tempfile.mkdtemp(dir=folder)
    env = dict(os.environ, HOME=home, LD_PRELOAD=str(library), COUNTED_PROGRAM=program)
    client = Client(valgrind + [program, "--no-cache", "--log-level", "error", "--config", str(config)], env)
    call = '{"name":"call_dynamic_tool","arguments":{"group":"echo","name":"echo","args":%s}%s}'

    def params(id):
        token = ',"_meta":{"progressToken":%d}' % id if "token" in name else ""
        return call % (arguments, token)

    client.initialize()
    client.calls(params, depth, calls)
    client.close()
    return read_counts(out)


def start_instructions(program, groups):
    """Returns the instructions of a whole run that answers `initialize` and `tools/list`."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        out, config = folder / "callgrind.out", folder / "servers.json"
        server = {"command": "cat", "description": "A server that is not started", "lazy_startup": "pure"}
        config.write_text(json.dumps({"mcpServers": {f"server-{n}": server for n in range(groups)}}))
        valgrind = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", "--log-file=/dev/null"]
        command = [program, "--no-cache", "--log-level", "error", "--config", str(config)]
        client = Client(valgrind + command, dict(os.environ, HOME=str(folder)))
        client.initialize()
        client.send("tools/list", "{}")
        client.receive()
        client.close()
        return read_counts(out)[0]


def read_counts(out):
    instructions, allocations, writes = 0, 0, 0
    callee = ""
    with open(out) as lines:
        for line in lines:
            if line.startswith("cfn="):
                callee = line[4:].strip()
            elif line.startswith("calls="):
                count = int(line[6:].split()[0])
                base = re.sub(r"('\d+|@.*)$", "", callee)
                allocations += count if base in ALLOCATIONS else 0
                writes += count if base in WRITES else 0
            elif line.startswith(("summary:", "totals:")):
                instructions = int(line.split()[1])
    return [instructions, allocations, writes]


def measure(program, row):
    name, _, depth, calls = row
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        warm_up = max(depth, min(WARM_UP, calls))
        few = counts_of(program, folder, row, warm_up)
        many = counts_of(program, folder, row, warm_up + calls)
    return [(b - a) / calls for a, b in zip(few, many)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a count exceeds its limit")
    parser.add_argument("--program", default=str(HERE / "../../target/fast/dynamic-mcp"), help="the binary")
    parser.add_argument("--only", help="only the rows whose name has this text")
    arguments = parser.parse_args()
    limits = json.loads((HERE / "limits.json").read_text())
    wrong = []

    def compare(row, what, count):
        limit = limits.get(row, {}).get(what)
        if limit is not None and not 0 <= count <= limit:
            wrong.append(f"{row}: {count:,.2f} {what}, and at most {limit:,} are allowed")

    print("| per call | instructions | allocations | writes |\n| --- | --- | --- | --- |")
    for row in ROWS:
        if arguments.only and arguments.only not in row[0]:
            continue
        counts = measure(arguments.program, row)
        print("| %s | %s | %.1f | %.2f |" % (row[0], f"{round(counts[0]):,}", counts[1], counts[2]), flush=True)
        for what, count in zip(("instructions", "allocations", "writes"), counts):
            compare(row[0], what, count)
    for groups in STARTS:
        row = f"start, groups: {groups}"
        if arguments.only and arguments.only not in row:
            continue
        count = start_instructions(arguments.program, groups)
        print("| %s | %s | | |" % (row, f"{count:,}"), flush=True)
        compare(row, "instructions", count)
    if arguments.check and wrong:
        print("\n".join(wrong), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
