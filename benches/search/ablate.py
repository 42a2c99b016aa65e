#!/usr/bin/env python3
"""Measures what each rule of the search is worth: every rule is switched off in a copy of the crate, one at a time.

    benches/search/ablate.py            # a table in Markdown, of hit@5 in points, for each rule and each set
    benches/search/ablate.py RULE…      # only these rules; RULE+RULE are switched off together

A rule is a constant that gets a neutral value, a table that is emptied, or a piece of code that is replaced. The first row
has hit@5 of the whole search, the second one that of bare BM25F. The others say how many points a rule adds to a set; below
0 the set would be better without it. The last columns have the mean over the sets on which nothing was ever tuned, and that
over all sets.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target/ablate"
# The parts of sets by which no rule or weight was ever chosen.
HELD_OUT = {"Seal-Tools, test", "MetaTool, test", "BFCL, test", "ToolAlpaca, test", "RestBench, test", "LiveMCPBench, test", "fresh 2"}



# The edits of each rule: a file, a text in it, and what takes the place of the rest of the line (a constant), of the text, or
# of the whole file (None).
RULES = json.loads((pathlib.Path(__file__).parent / "rules.json").read_text())


def apply(edits):
    source = WORK / "crate"
    shutil.rmtree(source, ignore_errors=True)
    # With new times, or cargo would not see that a file is as it was before.
    shutil.copytree(ROOT / "crates/search", source, copy_function=shutil.copy)
    for edit in edits:
        path = source / "src" / edit["file"]
        text = path.read_text()
        if "constant" in edit:
            lines = text.splitlines()
            (at,) = [n for n, line in enumerate(lines) if f" const {edit['constant']}:" in line]
            before, _, _ = lines[at].partition("=")
            lines[at] = f"{before}= {edit['value']};"
            text = "\n".join(lines) + "\n"
        elif "text" in edit:
            assert text.count(edit["text"]) == 1, edit
            text = text.replace(edit["text"], edit["by"])
        else:
            text = edit["by"]
        path.write_text(text)
    manifest = (source / "Cargo.toml").read_text()
    for key in ["rust-version", "version", "edition", "license"]:
        manifest = manifest.replace(f"{key}.workspace = true", f'{key} = "{VALUES[key]}"')
    (source / "Cargo.toml").write_text(manifest.replace("[lints]\nworkspace = true\n", "").replace("[dev-dependencies]", "[unused]"))


def hits():
    """Returns hit@5 of each set, as `rates` prints it: of the search, and of bare BM25F."""
    env = os.environ | {"CARGO_TARGET_DIR": str(WORK / "target"), "CARGO_TERM_QUIET": "true"}
    command = ["cargo", "run", "--release", "--offline", "--manifest-path", str(WORK / "rates/Cargo.toml")]
    output = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return json.loads(output.stdout)


def row(name, cells, sign=False):
    shown = [f"{cell:+.1f}" if sign else f"{cell:.1f}" for cell in cells]
    return f"| {name} | {' | '.join(shown)} |"


def means(values):
    held_out = [value for name, value in values.items() if name in HELD_OUT]
    return [*values.values(), sum(held_out) / len(held_out), sum(values.values()) / len(values)]


def main():
    chosen = sys.argv[1:] or list(RULES)
    (WORK / "rates/src").mkdir(parents=True, exist_ok=True)
    bench = ROOT / "benches/search"
    manifest = f'[package]\nname = "rates"\nedition = "{VALUES["edition"]}"\n[workspace]\n[profile.release]\nlto = false\nopt-level = 2\n'
    manifest += '[dependencies]\nserde = { version = "1", features = ["derive"] }\nserde_json = { version = "1", features = ["raw_value", "preserve_order"] }\n'
    manifest += 'search = { package = "dynamic-mcp-search", path = "../crate" }\n'
    (WORK / "rates/Cargo.toml").write_text(manifest)
    shutil.copy(ROOT / "Cargo.lock", WORK / "rates/Cargo.lock")
    main_rs = (bench / "rates.rs").read_text().replace("mod bm25f;", f'#[path = "{bench}/bm25f.rs"]\nmod bm25f;')
    (WORK / "rates/src/main.rs").write_text(main_rs.replace("mod sets;", f'#[path = "{bench}/sets.rs"]\nmod sets;'))
    apply([])
    whole = hits()
    ours = {name: rate[0] for name, rate in whole.items()}
    print(f"| | {' | '.join(ours)} | held out | all |\n| --- |{' ---: |' * (len(ours) + 2)}")
    print(row("the whole search", means(ours)))
    print(row("bare BM25F", means({name: rate[1] for name, rate in whole.items()})))
    for rule in chosen:
        apply([edit for one in rule.split("+") for edit in RULES[one]])
        without = {name: rate[0] for name, rate in hits().items()}
        print(row(rule, means({name: ours[name] - without[name] for name in ours}), sign=True), flush=True)


VALUES = {}
for line in (ROOT / "Cargo.toml").read_text().splitlines():
    key, _, value = line.partition(" = ")
    if key in ("version", "edition", "rust-version", "license") and value.startswith('"'):
        VALUES.setdefault(key, value.strip('"'))

if __name__ == "__main__":
    main()
