#!/usr/bin/env python3
"""Makes the evaluation sets in `sets/` from public data.

    make_sets.py SEAL_TOOLS METATOOL GORILLA TOOL_ALPACA REST_GPT LIVE_MCP_BENCH

The arguments are git checkouts of fairyshine/Seal-Tools, HowieHwong/MetaTool, ShishirPatil/gorilla, tangqiaoyu/ToolAlpaca,
Yifan-Song793/RestGPT and icip-cas/LiveMCPBench. Each set has groups of tools, and two parts of queries drawn by lot: `tune`
and `test`. A query has the names of the tools of which each is needed. The last three have no part `tune`: they only judge.
"""

import csv
import io
import json
import random
import subprocess
import sys
from pathlib import Path

QUERIES = 200
HERE = Path(__file__).parent / "sets"


def read(repo, path):
    return subprocess.run(["git", "-C", repo, "show", f"HEAD:{path}"], check=True, capture_output=True, text=True).stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def write(name, source, licence, tools, tune, test, groups=None):
    lot = random.Random(name)
    parts = {}
    for part, queries in [("tune", tune), ("test", test)]:
        known = [query for query in queries if query["needs"] and all(need in tools for need in query["needs"])]
        known.sort(key=lambda query: query["query"])
        parts[part] = lot.sample(known, min(QUERIES, len(known)))
    needed = {need for queries in parts.values() for query in queries for need in query["needs"]}
    others = sorted(set(tools) - needed)
    chosen = needed | set(lot.sample(others, min(len(others), max(0, 500 - len(needed)))))
    groups = groups or {"tools": ("", set(tools))}
    listed = [
        {"server": group, "description": text, "tools": [tools[name] for name in sorted(chosen & members)]}
        for group, (text, members) in groups.items()
    ]
    document = {"source": source, "licence": licence, "groups": listed, **parts}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace('},{"', '},\n{"')
    (HERE / f"{name}.json").write_text(text + "\n")
    print(name, len(chosen), {part: len(queries) for part, queries in parts.items()}, len(text))


def tool(name, description, properties):
    parameters = {key: {"description": value.get("description", "")} for key, value in properties.items()}
    return {"name": name, "description": description, "inputSchema": {"properties": parameters}}


def seal_tools(repo):
    folder = "Seal-Tools_Dataset"
    tools = {api["api_name"]: tool(api["api_name"], api["api_description"], api["parameters"]) for api in lines(read(repo, f"{folder}/tool.jsonl"))}
    def queries(file):
        return [{"query": row["query"], "needs": sorted({call["api"] for call in row["calling"]})} for row in lines(read(repo, f"{folder}/{file}.jsonl"))]
    write("seal-tools", "https://github.com/fairyshine/Seal-Tools", "Apache-2.0", tools, queries("dev"), queries("test_out_domain"))


def metatool(repo):
    tools = {name: tool(name, text, {}) for name, text in json.loads(read(repo, "dataset/plugin_des.json")).items()}
    tools |= {name: tool(name, text, {}) for name, text in json.loads(read(repo, "dataset/big_tool_des.json")).items()}
    rows = csv.DictReader(io.StringIO(read(repo, "dataset/data/all_clean_data.csv")))
    queries = [{"query": row["Query"], "needs": [row["Tool"]]} for row in rows]
    queries += [{"query": row["query"], "needs": row["tool"]} for row in json.loads(read(repo, "dataset/data/multi_tool_query_golden.json"))]
    random.Random("metatool").shuffle(queries)
    half = len(queries) // 2
    write("metatool", "https://github.com/HowieHwong/MetaTool", "MIT", tools, queries[:half], queries[half:])


def bfcl(repo):
    folder = "berkeley-function-call-leaderboard/bfcl_eval/data"
    tools, parts = {}, []
    for file in ["BFCL_v4_multiple.json", "BFCL_v4_live_multiple.json"]:
        answers = {row["id"]: row["ground_truth"] for row in lines(read(repo, f"{folder}/possible_answer/{file}"))}
        for row in lines(read(repo, f"{folder}/{file}")):
            for function in row["function"]:
                tools.setdefault(function["name"], tool(function["name"], function["description"], function["parameters"].get("properties", {})))
            messages = [message["content"] for message in row["question"][-1] if message["role"] == "user"]
            parts.append({"query": messages[-1], "needs": sorted({name for call in answers[row["id"]] for name in call})})
    random.Random("bfcl").shuffle(parts)
    write("bfcl", "https://github.com/ShishirPatil/gorilla", "Apache-2.0", tools, parts[: len(parts) // 2], parts[len(parts) // 2 :])


def tool_alpaca(repo):
    tools, groups, queries = {}, {}, []
    for file in ["eval_real", "eval_simulated"]:
        for api in json.loads(read(repo, f"data/{file}.json")):
            members = set()
            for name, text in api["Function_Description"].items():
                if name == "components" or name in tools:
                    continue
                description, _, rest = text.partition("\nParameters: ")
                parameters = json.loads(rest.partition("\nOutput: ")[0] or "{}")
                tools[name] = tool(name, description, {key: {"description": value} for key, value in parameters.items()})
                members.add(name)
            groups[api["Name"]] = (api["Description"], members)
            for query, answer in zip(api["Instructions"], api["Golden_Answers"]):
                queries.append({"query": query, "needs": sorted({call["Action"] for call in answer})})
    write("tool-alpaca", "https://github.com/tangqiaoyu/ToolAlpaca", "Apache-2.0", tools, [], queries, groups)


def rest_bench(repo):
    tools, groups, queries = {}, {}, []
    for service in ["tmdb", "spotify"]:
        members = {}
        for path, methods in json.loads(read(repo, f"specs/{service}_oas.json"))["paths"].items():
            for method, operation in methods.items():
                if "operationId" not in operation:
                    continue
                name = f"{service}-{operation['operationId']}"
                named = [parameter for parameter in operation.get("parameters", []) if "name" in parameter]
                text = operation.get("description") or operation.get("summary", "")
                tools[name] = tool(name, text, {parameter["name"]: parameter for parameter in named})
                members[f"{method.upper()} {path}"] = name
        groups[service] = ("", set(members.values()))
        for row in json.loads(read(repo, f"datasets/{service}.json")):
            needs = {members.get(step) for step in row["solution"]}
            queries += [{"query": row["query"], "needs": sorted(needs)}] if None not in needs else []
    write("rest-bench", "https://github.com/Yifan-Song793/RestGPT", "MIT", tools, [], queries, groups)


def live_mcp_bench(repo):
    """Its tools are those of the project's own set, so only the queries are written."""
    servers = json.loads((HERE.parent.parent / "data/livemcp-70.json").read_text())
    known = {item["name"] for server in servers for item in server["tools"]}
    queries = []
    for row in json.loads(read(repo, "annotated_data/all_annotations.json")):
        named = row["Annotator Metadata"]["Tools"].splitlines()
        needs = {line.partition(".")[2].strip() for line in named if line.strip()}
        if needs and needs <= known:
            queries.append({"query": row["Question"], "needs": sorted(needs)})
    document = {"source": "https://github.com/icip-cas/LiveMCPBench", "licence": "Apache-2.0", "groups": [], "tune": [], "test": queries}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace('},{"', '},\n{"')
    (HERE / "live-mcp-bench.json").write_text(text + "\n")


if __name__ == "__main__":
    seal_tools(sys.argv[1])
    metatool(sys.argv[2])
    bfcl(sys.argv[3])
    tool_alpaca(sys.argv[4])
    rest_bench(sys.argv[5])
    live_mcp_bench(sys.argv[6])
