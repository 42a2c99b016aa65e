#!/usr/bin/env python3
"""Compares what client libraries and agent frameworks give their users, directly and through dynamic-mcp.

    tests/real/direct_clients.py                      # all libraries, with target/release/dynamic-mcp
    tests/real/direct_clients.py --only dspy          # one of them; may be given several times
    tests/real/direct_clients.py --program PATH       # another dynamic-mcp
    tests/real/direct_clients.py --markdown FILE      # and writes the table
    tests/real/direct_clients.py --keep DIR           # and keeps the messages and reports of each run there

It installs each library in a pinned version into target/direct/clients (python3 and npm are needed). Each makes the
same session with two published servers: the lists, calls of tools, resources, prompts. The session is made with the
servers themselves, then with dynamic-mcp in each way of `WAYS`. What the library gives must be equal, apart from the
names. A difference that is meant is in `direct_clients/decided.py`, with its reason; any other one fails the test. No
process may be left after a session.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "direct_clients"
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from clients import CLIENTS  # noqa: E402
from compare import compare, merged, offered, short  # noqa: E402
from decided import reason_for  # noqa: E402
from install import TARGET, install, install_client, server_command  # noqa: E402
from runs import Run  # noqa: E402

GROUPS = ["everything", "time"]

# The name of a way: options of dynamic-mcp, settings, and whether npx and uvx start the servers.
WAYS = {
    "meta": ([], {}, False),
    "flat cold": (["--surface", "flat", "--first-list-wait", "10s"], {}, False),
    "flat warm": (["--surface", "flat"], {}, False),
    "shared": (["--surface", "flat", "--first-list-wait", "10s"], {"share": "user"}, False),
    "launcher first": (["--surface", "flat", "--first-list-wait", "10s"], {"launcher": "direct"}, True),
    "launcher second": (["--surface", "flat"], {"launcher": "direct"}, True),
}
# These use the cache, and what was learned about launchers, of the session before.
AFTER_ANOTHER = {"flat warm", "launcher second"}

CALLS = [
    ("everything", "text", "echo", {"message": "héllo"}),
    ("everything", "number", "get-sum", {"a": 2, "b": 3}),
    ("everything", "structured", "get-structured-content", {"location": "Chicago"}),
    ("everything", "image", "get-tiny-image", {}),
    ("everything", "embedded resource", "get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("everything", "annotations", "get-annotated-message", {"messageType": "success", "includeImage": True}),
    ("everything", "resource links", "get-resource-links", {"count": 2}),
    ("everything", "error result", "get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    ("everything", "wrong arguments", "get-sum", {"a": "two", "b": 3}),
    ("everything", "progress", "trigger-long-running-operation", {"duration": 1, "steps": 4}),
    ("everything", "unknown tool", "no-such-tool", {}),
    ("time", "structured, Python",
     "convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}),
    ("time", "error result, Python", "get_current_time", {"timezone": "Nowhere/Land"}),
]
READS = ["demo://resource/static/document/features.md", "demo://resource/dynamic/text/7", "demo://nothing/here"]
PROMPTS = [
    ("everything", "no arguments", "simple-prompt", {}),
    ("everything", "arguments", "args-prompt", {"city": "Paris"}),
    ("everything", "resource", "resource-prompt", {"resourceType": "Text", "resourceId": "1"}),
]


def plan_for(groups, surface):
    """The steps of a session with some of the servers, directly (surface None) or through dynamic-mcp."""
    calls = []
    for group, label, name, arguments in CALLS:
        if group in groups and surface == "meta":
            calls.append((label, "call_dynamic_tool", {"group": group, "name": name, "args": arguments}))
        elif group in groups:
            calls.append((label, f"{group}__{name}" if surface else name, arguments))
    if surface == "meta":
        calls += [(f"definitions of {group}", "get_dynamic_tools", {"group": group, "detail": "full"})
                  for group in groups]
    prompts = [(label, f"{group}__{name}" if surface else name, arguments)
               for group, label, name, arguments in PROMPTS if group in groups]
    steps = lambda planned: [dict(zip(("label", "name", "arguments"), step)) for step in planned]  # noqa: E731
    return {"calls": steps(calls), "prompts": steps(prompts), "reads": READS if "everything" in groups else []}


def run_direct(client, command, home, group):
    """A session with a server itself. What it gives is only what the others are compared with, so it is tried three
    times: a library may have a deadline that a server does not keep while the machine is busy."""
    for _ in range(3):
        run = Run(client, command, home, "direct", server_command(group, False), plan_for([group], None))
        if run.report:
            break
        print(f"{client.name}: a session with {group} itself failed: {run.failure()}", file=sys.stderr)
    return run


def run_through(client, command, program, home, way):
    """A session through dynamic-mcp."""
    options, settings, launched = WAYS[way]
    servers = {}
    for group in GROUPS:
        program_of, *args = server_command(group, launched)
        servers[group] = {"command": program_of, "args": args, **settings}
    home.mkdir(parents=True, exist_ok=True)
    config = home / f"{slug(way)}.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    target = [str(program), "--config", str(config), "--log-file", str(home / f"{slug(way)}.log"), *options]
    surface = "flat" if "flat" in options else "meta"
    return Run(client, command, home, slug(way), target, plan_for(GROUPS, surface))


def slug(name):
    """A name as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def check(client, program, keep):
    """Makes all sessions of a library. Returns its line of the table."""
    line = Line(client)
    base = Path(keep or tempfile.mkdtemp(prefix="direct-"), client.name.replace("/", "+"))
    shutil.rmtree(base, ignore_errors=True)
    try:
        command = install_client(client)
    except subprocess.SubprocessError as error:
        line.wrong[f"not installed: {error}"] = list(WAYS)
        return line
    check_ways(line, client, command, program, base)
    if not keep:
        shutil.rmtree(base.parent, ignore_errors=True)
    return line


def check_ways(line, client, command, program, base):
    """Makes all sessions of an installed library."""
    direct = {group: run_direct(client, command, base / group, group) for group in GROUPS}
    for group, run in direct.items():
        line.add_run(f"direct, {group}", run)
    if not all(run.report for run in direct.values()):
        line.wrong["nothing to compare with"] = list(WAYS)
        return
    expected = merged([run.report for run in direct.values()])
    line.offers = offered(expected)
    definitions = {group: run.definitions() for group, run in direct.items()}
    home = None
    for way in WAYS:
        home = home if way in AFTER_ANOTHER else base / slug(way)
        run = run_through(client, command, program, home, way)
        line.add_run(way, run)
        line.add_differences(way, compare(expected, definitions, run.report, way) if run.report else [])


class Line:
    """What was found out about a library: ways by what was found, in words."""

    def __init__(self, client):
        self.client, self.offers, self.meant, self.wrong, self.revisions = client, "", {}, {}, {}

    def add_run(self, way, run):
        """What counts for every session: it ends, leaves nothing, and uses what the way is about."""
        lines = " ".join(run.seen.values())
        found = [f"a process is left: {left[:120]}" for left in run.left]
        if not run.report:
            found.append(run.failure())
        if way == "launcher second" and re.search(r"npm exec|uv tool uvx", lines):
            found.append("npx or uvx was started")
        if way == "shared" and "__host" not in lines:
            found.append("no process was shared")
        for text in found:
            self.wrong.setdefault(text, []).append(way)
        side = self.revisions.setdefault("direct" if way.startswith("direct") else "through", set())
        side.update(run.revisions())

    def add_differences(self, way, differences):
        """The differences of a way: each is meant, or wrong."""
        for path, direct, through in differences:
            reason = reason_for(self.client.name, way, path, through)
            found = self.meant if reason else self.wrong
            ways = found.setdefault(reason or f"{path}: {short(direct)} → {short(through)}", [])
            if way not in ways:
                ways.append(way)

    def text(self):
        """The line, with a line for each difference."""
        sides = ["/".join(sorted(self.revisions.get(side) or ["?"])) for side in ("direct", "through")]
        ways = [way for way in WAYS if not any(way in found for found in self.wrong.values())]
        lines = [f"{self.client.name} {self.client.version}: {sides[0]} directly, {sides[1]} through; {self.offers}; "
                 f"equal, apart from what is meant: {', '.join(ways) or 'none'}"]
        for word, found in (("meant", self.meant), ("WRONG", self.wrong)):
            lines += [f"  {word} ({'all' if len(ways) == len(WAYS) else ', '.join(ways)}): {text}"
                      for text, ways in found.items()]
        return "\n".join(lines)


def table(lines):
    """The lines as a table in Markdown, and the reasons of differences below it."""
    rows = ["| library | version | revision, directly | revision, through | compared | " + " | ".join(WAYS) + " |",
            "| --- " * (5 + len(WAYS)) + "|"]
    reasons = list(dict.fromkeys(reason for line in lines for reason in line.meant))
    for line in lines:
        cells = [line.client.name, line.client.version]
        cells += ["/".join(sorted(line.revisions.get(side, []))) for side in ("direct", "through")]
        cells.append(line.offers)
        for way in WAYS:
            wrong = any(way in ways for ways in line.wrong.values())
            notes = [str(reasons.index(reason) + 1) for reason, ways in line.meant.items() if way in ways]
            cells.append(("**different**" if wrong else "equal") + (f" ({', '.join(notes)})" if notes else ""))
        rows.append(f"| {' | '.join(cells)} |")
    rows += ["", "Meant differences:", "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]
    return "\n".join(rows) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--program", type=Path, default=TARGET / "release/dynamic-mcp")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=2, help="libraries at the same time")
    return parser.parse_args()


def main():
    options = arguments()
    clients = [client for client in CLIENTS if not options.only or client.name in options.only]
    if not clients:
        sys.exit(f"no such library; there are {', '.join(client.name for client in CLIENTS)}")
    install()
    lines = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        keep = options.keep and options.keep.resolve()
        futures = {pool.submit(check, client, options.program.resolve(), keep): client for client in clients}
        for future in concurrent.futures.as_completed(futures):
            lines[futures[future].name] = future.result()
            print(lines[futures[future].name].text(), flush=True)
    ordered = [lines[client.name] for client in clients]
    if options.markdown:
        options.markdown.write_text(table(ordered))
    wrong = [line.client.name for line in ordered if line.wrong]
    bad = sum(any(way in ways for ways in line.wrong.values()) for line in ordered for way in WAYS)
    print(f"{len(ordered)} libraries, {len(WAYS)} ways each: {len(ordered) * len(WAYS) - bad} of "
          f"{len(ordered) * len(WAYS)} sessions equal, apart from what is meant; undecided differences: "
          f"{', '.join(wrong) or 'none'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
