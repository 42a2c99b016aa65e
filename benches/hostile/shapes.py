"""Lists and answers that no honest server has, each made to cost whoever reads it as much as possible."""

import json

MB = 1 << 20
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "evil", "version": "1"}}


def tool(name, schema='{"type":"object"}', **members):
    more = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in members.items())
    return f'{{"name":{json.dumps(name)},"inputSchema":{schema}{more}}}'


def properties(count, value="{}"):
    return '{"type":"object","properties":{%s}}' % ",".join(f'"p{n}":{value}' for n in range(count))


def nested(levels, inside="1"):
    return '{"a":' * levels + inside + "}" * levels


def page(member, entries, cursor=None):
    more = f',"nextCursor":"{cursor}"' if cursor is not None else ""
    return f'{{"{member}":[{",".join(entries)}]{more}}}'


def tools(*entries):
    return {"tools": [page("tools", entries)]}


def words(count, start=0):
    """Distinct words, which share no stem."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("w" + "".join(letters[n // 26**digit % 26] for digit in range(5)) for n in range(start, start + count))


def uris(member, key, count, uri):
    return page(member, (f'{{"{key}":"{uri(n)}","name":"n{n}"}}' for n in range(count)))


def union_of_distinct():
    schemas = ",".join(f'{{"const":{n}}}' for n in range(60_000))
    return tool("union", f'{{"type":"object","properties":{{"a":{{"oneOf":[{schemas}]}}}}}}')


def references_of_one_name():
    definitions = ",".join(f'"d{n}":{{"T":{{"type":"object","properties":{{"x":{{}}}}}}}}' for n in range(2900))
    uses = ",".join(f'"p{n}":{{"$ref":"#/$defs/d{n // 2}/T"}}' for n in range(5800))
    return tool("references", f'{{"type":"object","$defs":{{{definitions}}},"properties":{{{uses}}}}}')


def ui_tools(count):
    return tools(*(tool(f"t{n}", _meta={"ui": {"resourceUri": f"ui://evil/{n}"}}) for n in range(count)))


def big_tools():
    return tools(*(tool(f"t{n}", description="d " * 750) for n in range(10_000)))


def many_pages():
    return {"tools": [page("tools", [tool(f"t{n}-{m}") for m in range(20)], n + 1) for n in range(1001)]}


def long_initialize():
    capabilities = {**CAPABILITIES, "experimental": {f"x{n}": {} for n in range(300_000)}}
    return {**INITIALIZE, "instructions": "i " * (8 * MB), "capabilities": capabilities}


# The pages of each list by the member of the result, the members of the server's entry, and the settings.
SHAPES = {
    "an honest list": lambda: (tools(tool("t0", description="Reads a file.")), {}, {}),
    "35,000 levels": lambda: (tools(tool("t0", nested(35_000))), {}, {}),
    "1,500 levels around 4 MB": lambda: (tools(tool("t0", nested(1500, json.dumps("x" * 4 * MB)))), {}, {}),
    "16 tools of 250 levels and 0.9 MB": lambda: (
        tools(*(tool(f"t{n}", nested(250, json.dumps("x" * 900_000))) for n in range(16))), {}, {}),
    "300,000 tools": lambda: (tools(*(tool(f"t{n}", description="d" * 35) for n in range(300_000))), {}, {}),
    "10,000 tools of 1.5 kB": lambda: (big_tools(), {}, {}),
    "10,000 tools of 1.5 kB, flat": lambda: (big_tools(), {}, {"surface": "flat"}),
    "10,000 tools of 1.5 kB, pinned": lambda: (big_tools(), {"pin_tools": True}, {}),
    "10,000 tools of 1.5 kB, always changing": lambda: (big_tools(), {"args": ["--changes"]}, {}),
    "10,000 names of 1.5 kB": lambda: (tools(*(tool("n" * 1500 + str(n)) for n in range(10_000))), {}, {}),
    "50 names of 300,000 underscores": lambda: (tools(*(tool(f"g{n}" + "_" * 300_000) for n in range(50))), {}, {}),
    "10,000 names of 1,000 underscores": lambda: (tools(*(tool("_" * 1000 + str(n)) for n in range(10_000))), {}, {}),
    "10,000 tools of one name": lambda: (tools(*(tool("t0", description=str(n)) for n in range(10_000))), {}, {}),
    "60,000 tools with an app": lambda: (ui_tools(60_000), {}, {}),
    "400,000 properties": lambda: (tools(tool("t0", properties(400_000))), {}, {}),
    "16 tools of 60,000 properties": lambda: (
        tools(*(tool(f"t{n}", properties(60_000)) for n in range(16))), {}, {}),
    "a description of 30 MB": lambda: (tools(tool("t0", description="d " * (15 * MB))), {}, {}),
    "a union of 60,000 schemas": lambda: (tools(union_of_distinct()), {}, {}),
    "2,900 references of one name": lambda: (tools(references_of_one_name()), {}, {}),
    "2,000,000 distinct words": lambda: (
        tools(*(tool(f"t{n}", description=words(100_000, n * 100_000)) for n in range(20))), {}, {}),
    "names of 100,000 words": lambda: (
        tools(*(tool(words(100_000, n * 100_000).replace(" ", "_")) for n in range(20))), {}, {}),
    "1,000 pages without an end": lambda: (many_pages(), {}, {}),
    "200,000 templates": lambda: (
        {"resourceTemplates": [uris("resourceTemplates", "uriTemplate", 200_000, lambda n: f"t://{{a}}/x{n}")]}, {}, {}),
    "200,000 templates that match everything but their end": lambda: (
        {"resourceTemplates": [uris("resourceTemplates", "uriTemplate", 200_000, lambda n: f"{{+a}}y{n}")]}, {}, {}),
    "30,000 resources with a URI of 500 slashes": lambda: (
        {"resources": [uris("resources", "uri", 30_000, lambda n: f"skill:{'/' * 500}{n}/SKILL.md")]}, {}, {}),
    "200,000 resources": lambda: ({"resources": [uris("resources", "uri", 200_000, lambda n: f"r://{n}")]}, {}, {}),
    "200,000 resources like skills": lambda: (
        {"resources": [uris("resources", "uri", 200_000, lambda n: f"skill://{n}/SKILL.md")]}, {}, {}),
    "200,000 prompts": lambda: ({"prompts": [uris("prompts", "name", 200_000, lambda n: f"p{n}")]}, {}, {}),
    "a server that asks and never reads": lambda: (tools(tool("t0")), {"args": ["--asks"]}, {}),
    "interim responses without end": lambda: ({}, {"url": "interim.py"}, {}),
    "instructions of 16 MB": lambda: ({**tools(tool("t0")), "initialize": [json.dumps(long_initialize())]}, {}, {}),
}


def write(name, directory):
    """Writes the answers of a shape. Returns the members of the server's entry, and the settings."""
    answers, entry, settings = SHAPES[name]()
    answers.setdefault("initialize", [json.dumps(INITIALIZE)])
    for member, pages in answers.items():
        for number, content in enumerate(pages):
            file = "initialize.json" if member == "initialize" else f"{member}.{number}.json"
            (directory / file).write_text(content)
    return entry, settings
