"""Compares the report of a session through dynamic-mcp with those of sessions with the servers themselves."""

import json
import re

META_TOOLS = ["call_dynamic_tool", "call_dynamic_tool_readonly", "get_dynamic_tools", "get_status",
              "search_dynamic_tools"]
LISTS = ["tools", "resources", "prompts"]
# What differs between any two sessions, and the names of groups and servers.
MASKS = [
    (r"\d{1,2}:\d\d:\d\d [AP]M", "TIME"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "DATE"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"0x[0-9a-f]{8,}", "ADDRESS"),
    (r"(?<![a-z])(everything|time)__", ""),
    # Some libraries replace the characters of names.
    (r"(?<![a-z])everything_(?=[a-z])", ""),
    (r"(?<![a-z])time_(?=convert_|get_)", ""),
    (r"(mcp-servers/everything|mcp-time|dynamic-mcp)/(?=[a-zA-Z])", ""),
]


def normal(value):
    """A value without what `MASKS` names."""
    text = json.dumps(value, ensure_ascii=False)
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return json.loads(text)


def items(section):
    """The items of a list as a library gives it: a list, an object with a list, or an object with items by name."""
    if isinstance(section, list):
        return section
    if isinstance(section, dict) and not {"not offered", "exception"} & set(section):
        lists = [member for member in section.values() if isinstance(member, list)]
        members = [member for member in section.values() if isinstance(member, dict)]
        return [item for found in lists for item in found] if lists else members
    return [section]


def merged(reports):
    """One report with what the reports of several servers have."""
    whole = {section: [item for report in reports for item in items(report[section])] for section in LISTS}
    for section in ("calls", "reads", "got prompts"):
        whole[section] = {label: result for report in reports for label, result in report[section].items()}
    return whole


def offered(report):
    """What a library offers, in words."""
    calls = [result["result"] for result in report["calls"].values()]
    made = sum(not (isinstance(result, dict) and "not offered" in result) for result in calls)
    lists = [section for section in ("resources", "prompts")
             if not any(isinstance(item, dict) and "not offered" in item for item in report[section])]
    progress = ["progress"] if any("progress" in result for result in report["calls"].values()) else []
    return ", ".join([f"{made} of {len(calls)} calls", *lists, *progress])


def keyed(section):
    """Items by their names."""
    named = {}
    for item in items(section):
        name = item.get("name") or (item.get("function") or {}).get("name") if isinstance(item, dict) else None
        name = name or json.dumps(item, sort_keys=True)[:120]
        named[name if named.get(name, item) == item else f"{name} again"] = item
    return named


def differences(direct, through, path):
    """The paths at which two values differ, with both values there."""
    if isinstance(direct, dict) and isinstance(through, dict):
        for key in sorted(direct.keys() | through.keys()):
            yield from differences(direct.get(key), through.get(key), f"{path}/{key}")
    elif isinstance(direct, list) and isinstance(through, list) and len(direct) == len(through):
        for index, (first, second) in enumerate(zip(direct, through)):
            yield from differences(first, second, f"{path}/{index}")
    elif direct != through or type(direct) is not type(through):
        yield path, direct, through


def strings(value):
    """Every string in a value, also in JSON within strings."""
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except ValueError:
            return
        if isinstance(inner, (dict, list)):
            yield from strings(inner)
    elif isinstance(value, (dict, list)):
        for member in value.values() if isinstance(value, dict) else value:
            yield from strings(member)


def without_last_step(report):
    """The TypeScript SDK may show the last step of a call's progress or not: it handles notifications one turn later
    than the answer, which ends the progress. So that step does not count."""
    for result in report["calls"].values():
        if steps := result.get("progress"):
            step = list(steps[-1].values() if isinstance(steps[-1], dict) else steps[-1])
            result["progress"] = steps[:-1] if step[0] == step[1] else steps
    return report


def shown_definitions(result):
    """The definitions in an answer of get_dynamic_tools: a line of each, after the group and its instructions."""
    for text in strings(result):
        lines = text.split("\n")
        if re.fullmatch(r"Group \w+: \d+ tools", lines[0]):
            return [json.loads(line) for line in lines if line.startswith("{")]
    return None


def compare(expected, definitions, report, way):
    """All differences between what is expected and a report."""
    expected, actual = without_last_step(normal(expected)), without_last_step(normal(report))
    # A library shows each tool of the servers (some show prompts as tools, too), so a comparison of nothing is noticed.
    listed = sum(len(tools) for tools in definitions.values())
    found = list(differences(listed, min(listed, len(keyed(expected["tools"]))), "number of tools"))
    if way == "meta":
        names = {name.split("_", 1)[1] if name.startswith("dyn_") else name for name in keyed(actual["tools"])}
        found += differences(META_TOOLS, sorted(names & set(META_TOOLS)), "tools of dynamic-mcp")
        for group, tools in definitions.items():
            shown = shown_definitions(report["calls"].get(f"definitions of {group}"))
            found += differences(keyed(tools), keyed(shown or []), f"definitions/{group}")
            actual["calls"].pop(f"definitions of {group}", None)
    for section in LISTS[way == "meta":]:
        found += differences(keyed(expected[section]), keyed(actual[section]), section)
    for section in ("calls", "reads", "got prompts"):
        found += differences(expected[section], actual[section], section)
    return found


def short(value):
    """A value for a line of output."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:160] + "…"
