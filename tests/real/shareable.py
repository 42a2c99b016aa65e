#!/usr/bin/env python3
"""Finds out which published servers can be shared among clients without being asked.

    tests/real/shareable.py                     # runs every package, and says whether the lists are up to date
    tests/real/shareable.py --only time-mcp     # only this package; may be repeated
    tests/real/shareable.py --only time-mcp --update

The packages, with exact versions and calls, are in shareable_servers.json, those that are used most first: by npm's
downloads a month and the rank on PyPI. They are installed into target/direct (python3 and npm are needed, and the network,
once). Then each runs in namespaces of its own (Linux, `unshare`), with no network but a web server of this test.
shareable_procedure.py has the steps. A package is listed if every tool was called with success and no step found
anything, and only if it needs no arguments and no variables: others than those tested could change what it does.

`--update` writes the rows of the packages that ran into shareable_results.json, and from all rows there the list that
dynamic-mcp uses, crates/sharing/src/tested_packages.json, and the tables in docs/sharing.md and
docs/shareable-packages.md.

The servers of shareable_controls.py run first, and the packages with "control" among the others. They show that the
procedure can tell: the exit code is 1 if one of them is found to be what it is not.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import direct_client
from direct_client import TARGET, run_in_namespaces
from shareable_client import Client, Ended, NoAnswer
from shareable_controls import FAULTS
from shareable_procedure import Found, Incomplete, Procedure
from shareable_requests import call
from shareable_web import WEB, WebServer, take_address

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SERVERS = HERE / "shareable_servers.json"
RESULTS = HERE / "shareable_results.json"
LIST = ROOT / "crates/sharing/src/tested_packages.json"
DOCS = ROOT / "docs/sharing.md"
ALL = ROOT / "docs/shareable-packages.md"
EVIDENCE = ("version", "server_version", "tools", "processes", "calls_in_turn", "calls_at_once", "calls_of_one_process",
            "calls_with_other_arguments")
BEGIN, END = "<!-- results: written by tests/real/shareable.py -->\n", "<!-- end of the results -->\n"
CONTROLS = HERE / "shareable_controls.py"
CONTROL_CALLS = [call("upper", {"text": "one"}, "ONE"), call("upper", {"text": "two"}, "TWO"),
                 call("get", {"name": "a"}, "value"), call("get", {"name": "b"}, "value"),
                 call("page", {"url": f"{WEB}/one"}, "The page /one"), call("page", {"url": f"{WEB}/two"}, "/two")]
SLOW_CALL = call("page", {"url": f"{WEB}/slow"}, "The page /slow")


def install(launcher, name, version):
    """Installs a package and returns its command. Others than this test use it."""
    entry = {"launcher": launcher, "name": name, "version": version, "bin": binary(name)}
    direct_client.install([entry])
    return [direct_client.Server(entry, "").install()]


def binary(name):
    """The program of a package, if it is not named like it."""
    known = {entry["name"]: entry.get("bin") for entry in json.loads(SERVERS.read_text())}
    return known.get(name) or name.split("/")[-1]


def calls_of(server):
    calls = []
    for tool, arguments, expect, *times in server.fill(server.entry.get("calls", [])):
        calls.append(call(tool, json.loads(json.dumps(arguments).replace("{web}", WEB)), expect, times))
    return calls


def install_folder(program):
    """The folder into which a launcher installed a program."""
    path = Path(program)
    return path.parents[2] if path.parent.name == ".bin" else path.parents[1]


class Run:
    """What one server did: an outcome, and the reason."""

    def __init__(self, start, calls, files, install_places, web, verbose):
        began = time.monotonic()
        log = (lambda *words: print(f"    {time.monotonic() - began:5.1f}", *words, flush=True)) if verbose else lambda *_: None
        self.procedure, self.reason, self.outcome = None, "", "shareable"
        try:
            self.procedure = Procedure(start, calls, files, ["/tmp", "/dev/shm"], install_places, web, log)
            self.procedure.run()
        except Found as found:
            self.outcome, self.reason = "private", str(found)
        except (Ended, NoAnswer) as error:
            started = self.procedure.surface is not None
            what = "its process ends" if isinstance(error, Ended) else "it does not answer"
            self.outcome, self.reason = ("private", what) if started else ("not tested completely", f"it does not start: {what}")
        except Incomplete as incomplete:
            self.outcome, self.reason = "not tested completely", str(incomplete)
        finally:
            self.procedure.close()
        self.seconds = round(time.monotonic() - began)


def run_package(entry, web, verbose):
    """Runs a package and returns its row."""
    server = direct_client.Server(entry, "")
    row = {key: entry[key] for key in ("launcher", "name", "version")}
    try:
        program = server.install()
    except (direct_client.Failed, subprocess.SubprocessError, OSError):
        return {**row, "outcome": "not tested completely", "reason": entry.get("reason", "it cannot be installed here")}
    server.fresh()
    arguments = json.loads(json.dumps(server.fill(entry.get("args", []))).replace("{web}", WEB))
    env = {**server.environment(), **server.own_environment()}

    def start(name, capabilities):
        return Client([program, *arguments], env, server.files).initialize(name, capabilities)

    calls = calls_of(server)
    run = Run(start, calls, server.files, [install_folder(program)], web, verbose)
    reason = run.reason
    if run.outcome == "not tested completely" and "reason" in entry:
        reason = f"{entry['reason']}: {reason}"
    outcome = run.outcome
    if outcome == "shareable" and (entry.get("args") or entry.get("env") or entry.get("with")):
        outcome, reason = "private", "nothing was found, but it needs arguments, variables or other packages, and others " \
                                     "than the tested ones may change what it does"
    elif outcome == "shareable" and "doubt" in entry:
        outcome, reason = "private", f"nothing was found, but {entry['doubt']}"
    procedure = run.procedure
    hello = (procedure.surface or {}).get("hello", {})
    tools = sorted(getattr(procedure, "tools", {}))
    row.update(server_version=hello.get("serverInfo", {}).get("version"), outcome=outcome,
               reason=clean(reason), tools=tools, called=sorted({each.params["name"] for each in calls if each.expect is not None} & set(tools)),
               calls=len(calls), **procedure.counts, seconds=run.seconds)
    server.clean()
    return row


def clean(text):
    """A reason as it stands in the docs: without the places of this run, on one line."""
    text = re.sub(r"/tmp/direct/\w+/home", "~", text)
    text = re.sub(r"/tmp/direct/\w+/files", "DIRECTORY", text)
    text = re.sub(r"/tmp/direct/\w+/tmp", "TMPDIR", text)
    text = re.sub(re.escape(str(TARGET)) + r"/\w+/[\w-]+/\w+", "INSTALLATION", text)
    return re.sub(r"\s+", " ", text.replace(WEB, "WEB"))[:300]


def run_controls(web, only, verbose):
    """Runs the servers with faults. Returns whether each was found to have its own."""
    right = True
    for fault, finding in FAULTS.items():
        if only and fault not in only:
            continue
        server = direct_client.Server({"launcher": "", "name": "control", "version": ""}, "")
        server.fresh()
        env = {**server.environment(), **server.own_environment()}
        calls = CONTROL_CALLS + [SLOW_CALL] * (fault in ("none", "holds up calls"))
        run = Run(lambda name, capabilities: Client([sys.executable, "-S", str(CONTROLS), fault], env, server.files)
                  .initialize(name, capabilities), calls, server.files, [], web, verbose)
        good = run.outcome == "shareable" if finding is None else \
            run.outcome == "private" and bool(re.search(finding, run.reason))
        right &= good
        print(f"{'' if good else 'WRONG: '}control {fault!r}: {run.outcome} {clean(run.reason)} ({run.seconds} s)", flush=True)
        server.clean()
    return right


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def between_marks(page, text):
    """The text of a page of docs with other results."""
    old = page.read_text()
    return old[:old.index(BEGIN) + len(BEGIN)] + text + old[old.index(END):]


def shortened(text):
    return text if len(text) <= 180 else text[:179] + "…"


def lists_of(rows):
    """Returns the text of each file that is made from the results."""
    shared = [row for row in rows if row["outcome"] == "shareable"]
    listed = [{"launcher": row["launcher"], "name": row["name"],
               "evidence": {key: row[key] for key in EVIDENCE}} for row in shared]
    short = [[f"`{row['launcher']}`", f"`{row['name']}`", row["version"], str(len(row["tools"]))] for row in shared]
    long = [[f"`{row['launcher']}`", f"`{row['name']}`", row["version"],
             f"{len(row.get('called', []))} of {len(row.get('tools', []))}", str(row.get("calls", 0)),
             row["outcome"], shortened(row["reason"]).replace("|", "\\|").replace("<", "&lt;")] for row in rows]
    return {LIST: "[\n" + ",\n".join("  " + json.dumps(package) for package in listed) + "\n]\n",
            DOCS: between_marks(DOCS, table(["launcher", "package", "version", "tools"], short)),
            ALL: between_marks(ALL, table(["launcher", "package", "version", "tools with calls", "calls", "result", "why"], long))}


def merge(new, update):
    """Puts the new rows among the old ones, in the order of the packages. Returns whether all files are up to date."""
    rows = {(row["launcher"], row["name"]): row for row in (json.loads(RESULTS.read_text()) if RESULTS.exists() else [])}
    rows.update({(row["launcher"], row["name"]): row for row in new})
    order = [(entry["launcher"], entry["name"]) for entry in json.loads(SERVERS.read_text())]
    rows = [rows[key] for key in order if key in rows]
    if update:
        RESULTS.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
    current = True
    for path, text in lists_of(rows).items():
        if update:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path} is out of date: run this with --update")
            current = False
    return current


def inside(options, entries, output):
    """What runs in the namespaces: writes the rows as they come."""
    take_address()
    web, right = WebServer(), True
    if not options.only or options.control:
        right = run_controls(web, options.control, options.verbose)
    for entry in entries:
        row = run_package(entry, web, options.verbose)
        with output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        wrong = entry.get("control") and row["outcome"] == "shareable"
        right &= not wrong
        print(f"{'WRONG: ' if wrong else ''}{row['launcher']} {row['name']}@{row['version']} "
              f"({row.get('server_version')}): {row['outcome']}: {row['reason']} ({row.get('seconds')} s)", flush=True)
    sys.exit(not right)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", action="append", help="only this package; may be repeated")
    parser.add_argument("--control", metavar="FAULT", action="append", help="only this control; may be repeated")
    parser.add_argument("--update", action="store_true", help="write the results, the list and the table")
    parser.add_argument("--verbose", action="store_true", help="print the steps")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    entries = [entry for entry in json.loads(SERVERS.read_text())
               if (not options.only or entry["name"] in options.only) and not (options.control and not options.only)]
    output = TARGET / "shareable.jsonl"
    if options.inside:
        inside(options, entries, output)
    direct_client.install(entries)
    output.unlink(missing_ok=True)
    code = run_in_namespaces()
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    current = merge(rows, options.update) if rows else True
    sys.exit(code or not current)


if __name__ == "__main__":
    main()
