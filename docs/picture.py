#!/usr/bin/env python3
"""Draws docs/picture.svg, the picture in README.md, from the tables of docs/benchmarks.md.

    docs/picture.py            writes the picture
    docs/picture.py --check    fails if the picture is not the one of today's tables
"""

import re
import sys
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
PICTURE = DOCS / "picture.svg"
WIDTH, LABEL, BAR_LEFT, BAR_WIDTH = 760, 20, 170, 400

STYLE = """
.paper { fill: #ffffff; stroke: #d1d9e0 }
text { font: 14px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 12px; fill: #59636e }
.without { fill: #8c959f }
.with { fill: #1a7f37 }
"""


def section(page, heading):
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", page.split(f"{heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def cell(text, row, column):
    """The number in a cell of a table, without the range that follows it."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return float(line.split("|")[column + 1].strip().split(" ")[0].replace(",", ""))


def figures(page):
    """(what is compared, the condition, [(name, unit, labels, numbers)]) for each panel. A pair of bars has two numbers."""
    clients = section(page, "## Two clients with ten servers")
    shared = section(page, "## Shared servers")
    instances = shared[shared.index("| 1 instance | 6 |"):].split("\n\n")[0]
    lists = section(page, "### `tools/list`")
    tokens = section(page, "### Learning one tool of 527")
    pair, twenty = ("without", "dynamic-mcp"), ("20 instances, private", "20 instances, shared")

    def of_clients(row):
        return cell(clients, row, 1), cell(clients, row, 2)

    def of_instances(column):
        return tuple(cell(instances, row, column) for row in twenty)

    return [
        ("Two clients with ten servers of npx and uvx, none in use",
         "The default, from the second start on. Without dynamic-mcp, each client starts all ten.", [
             ("processes", "", pair, of_clients("processes")),
             ("memory", " MB", pair, of_clients("memory, MB")),
             ("tools listed after", " ms", pair, of_clients("tools of all servers known, ms")),
         ]),
        ("20 instances of dynamic-mcp that use the same six servers",
         'Only with "share": "user", on Linux. By default, each instance starts its own.', [
             ("server processes", "", ("private", "shared"), of_instances(1)),
             ("memory", " MB", ("private", "shared"), of_instances(2)),
         ]),
        ("What the model reads at the start: 70 servers with 527 tools",
         "The default, with the instructions of dynamic-mcp. Without dynamic-mcp, every tool is listed.", [
             ("tokens", "", pair, (cell(tokens, "all 527 tools listed directly", 1),
                                   cell(lists, "70", 2) + cell(lists, "70", 3))),
         ]),
    ]


def number(value):
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"


def draw(panels):
    out, y = [], 30
    for title, condition, rows in panels:
        out.append(f'<text class="title" x="{LABEL}" y="{y}">{escape(title)}</text>')
        out.append(f'<text class="small" x="{LABEL}" y="{y + 18}">{escape(condition)}</text>')
        y += 30
        for what, unit, labels, values in rows:
            for style, label, value in zip(("without", "with"), labels, values):
                width = max(2, round(BAR_WIDTH * value / max(values)))
                if style == "without":
                    out.append(f'<text x="{LABEL}" y="{y + 14}">{escape(what)}</text>')
                out.append(f'<rect class="{style}" x="{BAR_LEFT}" y="{y + 3}" width="{width}" height="14" rx="2"/>')
                out.append(f'<text x="{BAR_LEFT + width + 8}" y="{y + 15}">{number(value)}{unit} '
                           f'<tspan class="small">{escape(label)}</tspan></text>')
                y += 20
            y += 8
        y += 26
    words = " ".join(f"{title}: " + ", ".join(
        f"{what} {number(values[0])}{unit} {labels[0]}, {number(values[1])}{unit} {labels[1]}"
        for what, unit, labels, values in rows) + f". {condition}" for title, condition, rows in panels)
    height = y - 24
    paper = f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">\n'
            f"<title>{escape(words)}</title>\n<style>{STYLE}</style>\n" + "\n".join([paper, *out]) + "\n</svg>\n")


def main():
    picture = draw(figures((DOCS / "benchmarks.md").read_text(encoding="utf-8")))
    if sys.argv[1:] == ["--check"]:
        if PICTURE.read_text(encoding="utf-8") != picture:
            sys.exit("docs/picture.svg is not the one of docs/benchmarks.md: run docs/picture.py")
    else:
        PICTURE.write_text(picture, encoding="utf-8")


main()
