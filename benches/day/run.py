#!/usr/bin/env python3
"""Lives through an hour of a working day twice at the same time, with dynamic-mcp and without, and draws both.

    cargo build --release && benches/day/run.py [--program FILE] [--minutes 60]

Two clients have three windows in two projects, and ten servers of npm and PyPI as `npx` and `uvx` start them. The
windows open and close, call tools for some minutes, pause, and the config is edited twice. Without dynamic-mcp a window
starts all its servers when it opens, as clients do; an edit restarts the server that it is about. With dynamic-mcp
nothing is set but the servers. Every five seconds, the processes below the windows are counted, with what belongs to
them: hosts of shared servers, wardens and launchers. Memory is the sum of Pss_Anon: what the processes have for
themselves. Programs and libraries are left out, because both halves map the same files. The drawing is docs/day.svg.
Linux only; the packages are downloaded into target/launchers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "launchers"))
from run import TARGET, Client, descendants, environment

PICTURE = Path(__file__).resolve().parents[2] / "docs/day.svg"
# By the name of the server: its launcher, the launcher's arguments, the tool that is called, and its arguments.
PACKAGES = {
    "memory": ("npx", ["-y", "@modelcontextprotocol/server-memory"], "read_graph", {}),
    "filesystem": ("npx", ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"], "list_allowed_directories", {}),
    "thinking": ("npx", ["-y", "@modelcontextprotocol/server-sequential-thinking"], "sequentialthinking",
                 {"thought": "x", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}),
    "everything": ("npx", ["-y", "@modelcontextprotocol/server-everything", "stdio"], "echo", {"message": "x"}),
    "time-js": ("npx", ["-y", "time-mcp"], "days_in_month", {"date": "2024-02-11"}),
    "time": ("uvx", ["mcp-server-time", "--local-timezone", "UTC"], "get_current_time", {"timezone": "UTC"}),
    "fetch": ("uvx", ["mcp-server-fetch"], "fetch", {"url": "http://127.0.0.1:9/"}),
    "git": ("uvx", ["mcp-server-git"], "git_status", {"repo_path": "REPOSITORY"}),
    "calculator": ("uvx", ["mcp-server-calculator"], "calculate", {"expression": "1+1"}),
    "search": ("uvx", ["duckduckgo-mcp-server"], "fetch_content", {"url": "http://127.0.0.1:9/"}),
}
INTERVAL_S = 5
CALL_EVERY_S = 6
# What happens, by minute: a window opens, calls some servers for some minutes, or closes; or the config is edited.
WINDOWS = {"editor, project one": "one", "editor, project two": "two", "terminal, project one": "one"}
EDITOR_ONE, EDITOR_TWO, TERMINAL = WINDOWS
DAY = [
    (1, "open", EDITOR_ONE),
    (2, "use", EDITOR_ONE, ["filesystem", "git"], 4),
    (5, "open", EDITOR_TWO),
    (6, "use", EDITOR_TWO, ["git", "search"], 3),
    (9, "open", TERMINAL),
    (10, "use", TERMINAL, ["time", "fetch"], 2),
    (12, "use", EDITOR_ONE, ["memory", "thinking"], 3),
    (18, "edit", "calculator"),
    (19, "use", EDITOR_TWO, ["filesystem", "calculator"], 4),
    (24, "close", EDITOR_ONE),
    (25, "open", EDITOR_ONE),
    (26, "use", EDITOR_ONE, ["filesystem", "git", "memory"], 6),
    (28, "use", TERMINAL, ["filesystem", "git"], 4),
    (38, "close", TERMINAL),
    (40, "use", EDITOR_TWO, ["everything", "time-js", "time"], 3),
    (44, "edit", "search"),
    (45, "open", TERMINAL),
    (46, "use", TERMINAL, ["search", "git"], 5),
    (48, "use", EDITOR_ONE, ["filesystem", "git"], 6),
    (57, "close", EDITOR_ONE),
    (58, "close", EDITOR_TWO),
    (59, "close", TERMINAL),
]


class Half:
    """One half of the comparison: the windows that are open, the seconds until each had opened, and the times of their calls
    in milliseconds."""

    def __init__(self, home):
        self.home, self.windows, self.times = home, {}, {"first": [], "later": []}
        self.failed, self.used, self.opened = 0, set(), []
        self.env = {key: value for key, value in environment(home).items() if key != "CI"} | {"XDG_RUNTIME_DIR": str(home / "run")}
        (home / "run").mkdir(mode=0o700)
        for project in set(WINDOWS.values()):
            subprocess.run(["git", "init", "-q", str(home / project)], check=True)
        self.edits = 0

    def servers(self):
        """The config: an edited server has one more variable in its environment each time."""
        entries = {name: {"command": launcher, "args": [word.replace("REPOSITORY", ".") for word in words]}
                   for name, (launcher, words, *_) in PACKAGES.items()}
        for name in [event[2] for event in DAY if event[1] == "edit"][:self.edits]:
            entries[name]["env"] = {"EDITED": "1"}
        return entries

    def act(self, event):
        kind, window = event[1], event[2]
        if kind == "open":
            begin = time.monotonic()
            self.windows[window] = self.open(WINDOWS[window])
            self.opened.append(time.monotonic() - begin)
            self.used = {(other, name) for other, name in self.used if other != window}
        elif kind == "close":
            self.close(self.windows.pop(window))
        elif kind == "edit":
            self.edits += 1
            self.edit(window)
        else:
            end = time.monotonic() + event[4] * Day.minute_s
            while time.monotonic() < end:
                for name in event[3]:
                    self.timed_call(window, name)
                time.sleep(CALL_EVERY_S)

    def timed_call(self, window, name):
        _, _, tool, arguments = PACKAGES[name]
        arguments = json.loads(json.dumps(arguments).replace("REPOSITORY", str(self.home / WINDOWS[window])))
        begin = time.monotonic()
        answer = self.call(self.windows[window], name, tool, arguments)
        which = "later" if (window, name) in self.used else "first"
        self.used.add((window, name))
        self.times[which].append((time.monotonic() - begin) * 1e3)
        self.failed += "content" not in answer

    def processes(self):
        roots = [pid for window in list(self.windows.values()) for pid in self.roots(window)]
        return roots + [pid for root in roots for pid in tree(root)]


class Without(Half):
    def start(self, name, project):
        entry = self.servers()[name]
        return Client([entry["command"], *entry["args"]], self.env | entry.get("env", {}), self.home / project)

    def open(self, project):
        window, threads = {"project": project}, []
        for name in PACKAGES:
            threads.append(threading.Thread(target=lambda name=name: window.__setitem__(name, self.start(name, project))))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return window

    def close(self, window):
        for name in PACKAGES:
            window[name].close()

    def edit(self, name):
        for window in list(self.windows.values()):
            window[name].close()
            window[name] = self.start(name, window["project"])

    def call(self, window, name, tool, arguments):
        return window[name].request("tools/call", {"name": tool, "arguments": arguments})

    def roots(self, window):
        return [window[name].process.pid for name in PACKAGES if name in window]


class With(Half):
    def __init__(self, home, program):
        super().__init__(home)
        self.program = program
        self.edit(None)

    def edit(self, _):
        (self.home / "servers.json").write_text(json.dumps({"mcpServers": self.servers()}))

    def open(self, project):
        return Client([self.program, "--config", str(self.home / "servers.json")], self.env, self.home / project)

    def close(self, window):
        window.close()

    def call(self, window, name, tool, arguments):
        params = {"name": "call_dynamic_tool", "arguments": {"group": name, "name": tool, "args": arguments}}
        return window.request("tools/call", params)

    def roots(self, window):
        return [window.process.pid]

    def processes(self):
        hosts = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_host(pid)]
        return super().processes() + hosts + [pid for host in hosts for pid in tree(host)]

    def is_host(self, pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[0] == b"dmcp-host" and any(word.startswith(os.fsencode(self.home)) for word in words)


def tree(pid):
    try:
        return descendants(pid)
    except OSError:
        return []


def anonymous(pids):
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
    return total / 1024


class Day:
    """Plays the day on both halves, each window in a thread of its own. `samples`: minute, and of each half the number of
    processes and the memory in MB."""

    minute_s = 60

    def __init__(self, halves):
        self.halves, self.samples, self.errors = halves, [], []

    def play(self):
        begin = time.monotonic()
        actors = [(half, actor) for half in self.halves for actor in [*WINDOWS, "edit"]]
        threads = [threading.Thread(target=self.guarded, args=(half, actor, begin)) for half, actor in actors]
        for thread in threads:
            thread.start()
        end = begin + 60 * self.minute_s
        while time.monotonic() < end:
            row = [(time.monotonic() - begin) / self.minute_s]
            for half in self.halves:
                pids = set(half.processes())
                row += [len(pids), anonymous(pids)]
            self.samples.append(row)
            time.sleep(INTERVAL_S)
        for thread in threads:
            thread.join(60)

    def guarded(self, half, actor, begin):
        try:
            for event in DAY:
                if event[2] == actor or (event[1] == "edit" and actor == "edit"):
                    time.sleep(max(0, begin + event[0] * self.minute_s - time.monotonic()))
                    half.act(event)
        except Exception as error:
            self.errors.append(f"{type(half).__name__}, {actor}: {error!r}")


def chart(top, title, unit, samples, columns):
    """The lines of two columns, from `top` on: 150 high, 640 wide."""
    most = max(row[column] for row in samples for column in columns) or 1
    out = [f'<text class="title" x="20" y="{top}">{title}</text>']
    for part in (0, 0.5, 1):
        y = top + 170 - 140 * part
        out.append(f'<line class="grid" x1="80" x2="720" y1="{y:.0f}" y2="{y:.0f}"/>')
        out.append(f'<text class="small" x="72" y="{y + 4:.0f}" text-anchor="end">{most * part:,.0f}{unit}</text>')
    for column, kind in zip(columns, ("without", "with")):
        points = " ".join(f"{80 + 640 * row[0] / 60:.1f},{top + 170 - 140 * row[column] / most:.1f}" for row in samples)
        out.append(f'<polyline class="{kind}" points="{points}"/>')
    return out


def draw(samples):
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 490" width="760" role="img">',
        "<title>An hour with three windows of clients and ten servers: processes and memory, without and with dynamic-mcp</title>",
        "<style>",
        "text { font: 14px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }",
        ".title { font-weight: 600; font-size: 15px } .small { font-size: 12px; fill: #59636e }",
        ".grid { stroke: #d1d9e0 } polyline { fill: none; stroke-width: 2; stroke-linejoin: round }",
        ".without { stroke: #8c959f } .with { stroke: #1a7f37 }",
        "</style>",
        '<rect width="760" height="490" fill="#ffffff" rx="6"/>',
        *chart(34, "Processes", "", samples, (1, 3)),
        *chart(254, "Memory of these processes", " MB", samples, (2, 4)),
        *[f'<text class="small" x="{80 + 640 * minute / 60:.0f}" y="444" text-anchor="middle">{minute} min</text>' for minute in (0, 15, 30, 45, 60)],
        '<polyline class="without" points="80,466 110,466"/><text x="118" y="471">without</text>',
        '<polyline class="with" points="200,466 230,466"/><text x="238" y="471">with dynamic-mcp</text>',
        "</svg>",
    ]
    PICTURE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(TARGET / "release/dynamic-mcp"))
    parser.add_argument("--minutes", type=float, default=60, help="how long the hour takes")
    args = parser.parse_args()
    Day.minute_s = args.minutes
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        for name in ("without", "with"):
            (Path(directory) / name).mkdir()
        day = Day([Without(Path(directory) / "without"), With(Path(directory) / "with", args.program)])
        day.play()
        time.sleep(20)
        left = [len(half.processes()) for half in day.halves]
    draw(day.samples)
    print("| an hour, three windows, ten servers | without | with dynamic-mcp |\n| --- | ---: | ---: |")
    for name, at, how in [("processes, mean", 1, statistics.mean), ("processes, most", 1, max),
                          ("memory, mean (MB)", 2, statistics.mean), ("memory, most (MB)", 2, max)]:
        print(f"| {name} | " + " | ".join(f"{how(row[at + 2 * half] for row in day.samples):,.0f}" for half in (0, 1)) + " |")
    print("| a window opens until its servers answer, median (s) | " + " | ".join(f"{statistics.median(half.opened):.2f}" for half in day.halves) + " |")
    for name, which in [("first call of a window to a server, median (ms)", "first"), ("other calls, median (ms)", "later")]:
        print(f"| {name} | " + " | ".join(f"{statistics.median(half.times[which]):,.1f}" for half in day.halves) + " |")
    print("| calls | " + " | ".join(str(sum(map(len, half.times.values()))) for half in day.halves) + " |")
    print("| calls without a result | " + " | ".join(str(half.failed) for half in day.halves) + " |")
    print("| processes left 20 s after the last window closed | " + " | ".join(map(str, left)) + " |")
    print("\n".join(day.errors))


if __name__ == "__main__":
    main()
