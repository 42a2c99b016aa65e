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
text { font: 14px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 12px; fill: #59636e }
.without { fill: #8c959f }
.with { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .without { fill: #656c76 }
  .with { fill: #3fb950 }
}
"""


def section(page, heading):
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", page.split(f"{heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def cell(text, row, column):
    """The number in a cell of a table, without the range that follows it."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return float(line.split("|")[column + 1].strip().split(" ")[0].replace(",", ""))


def figures(page):
    """(what is compared, its unit, [(label, number)]) for each pair of bars, by panel."""
    direct = section(page, "### Without dynamic-mcp: all ten at once")
    cached = section(page, "### The second start: all tools are cached")
    shared = section(page, "## Shared servers")
    windows = shared[shared.index("| 1 window | 6 |"):].split("\n\n")[0]
    lists = section(page, "### `tools/list`")
    tokens = section(page, "### Learning one tool of 527")
    pair = ("without", "dynamic-mcp")
    processes = (cell(direct, "processes", 1), cell(cached, "quiet: processes", 2))
    memory = (cell(direct, "memory, MB", 1), cell(cached, "quiet: memory, MB", 2))
    start = (cell(direct, "the last answered `tools/list`, ms", 1),
             cell(cached, "spawn to answer of `tools/list`, ms", 2))
    twenty = ("20 windows, private", "20 windows, shared")
    return [
        ("One window with ten servers, none in use", [
            ("processes", "", pair, processes),
            ("memory", " MB", pair, memory),
            ("tools listed after", " ms", pair, start),
        ]),
        ("20 windows that all use the same six servers, if you let windows share them", [
            ("server processes", "", ("one each", "shared"), tuple(cell(windows, row, 1) for row in twenty)),
            ("memory", " MB", ("one each", "shared"), tuple(cell(windows, row, 2) for row in twenty)),
        ]),
        ("What the model reads at the start, with our instructions: 70 servers with 527 tools", [
            ("tokens", "", pair, (cell(tokens, "all 527 tools listed directly", 1),
                                  cell(lists, "70", 2) + cell(lists, "70", 3))),
        ]),
    ]


def number(value):
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"


def draw(panels):
    out, y = [], 30
    for title, rows in panels:
        out.append(f'<text class="title" x="{LABEL}" y="{y}">{escape(title)}</text>')
        y += 12
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
    words = "; ".join(f"{title}: " + ", ".join(
        f"{what} {number(values[0])}{unit} {labels[0]}, {number(values[1])}{unit} {labels[1]}"
        for what, unit, labels, values in rows) for title, rows in panels)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 24}" width="{WIDTH}" role="img">\n'
            f"<title>{escape(words)}</title>\n<style>{STYLE}</style>\n" + "\n".join(out) + "\n</svg>\n")


def main():
    picture = draw(figures((DOCS / "benchmarks.md").read_text(encoding="utf-8")))
    if sys.argv[1:] == ["--check"]:
        if PICTURE.read_text(encoding="utf-8") != picture:
            sys.exit("docs/picture.svg is not the one of docs/benchmarks.md: run docs/picture.py")
    else:
        PICTURE.write_text(picture, encoding="utf-8")


main()
