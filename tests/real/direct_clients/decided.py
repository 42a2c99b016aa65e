"""The differences that are meant, each with its reason."""

import re

FLAT = "(?!meta).*"
# Patterns for the path (after "LIBRARY: " if it is about one), for the value through dynamic-mcp as text, and for the
# way; and the reason.
DECIDED = [
    (r"tools/(dyn_)?get_status", "", FLAT, "The flat list has `get_status`, a tool of dynamic-mcp itself."),
    (r"(prompts|tools)/(dyn_)?status", "", ".*", "dynamic-mcp has a prompt of its own, `status`."),
    (r"tools/(dyn_)?(get-roots-list|trigger-.*-(request|elicitation).*)", "^None$", "shared",
     "A shared server is offered no roots, sampling or elicitation, so it lists no tools that need them."),
    (r"calls/unknown tool/.*", "", ".*", "dynamic-mcp answers calls of unknown tools itself, and names similar ones."),
    (r"calls/wrong arguments/.*", "", "meta",
     "`call_dynamic_tool` checks arguments by the server's schema, not the library by its own; after the server's "
     "error follows what did not fit."),
    (r"calls/.*", "call_dynamic_tool", "meta", "The library names the tool that it called: `call_dynamic_tool`."),
    (r"calls/.*/raw_input/.*", "", "meta", "The library repeats the arguments that it sent: those of "
     "`call_dynamic_tool`."),
    (r"calls/structured.*/result/data.*", r"^\d+$", "meta",
     "`call_dynamic_tool` has no output schema, so the library gives structured content as it is, without types."),
    (r"calls/.*/metadata/annotations/.*", "", "meta", "The library repeats the annotations of the tool that it called: "
     "`call_dynamic_tool`."),
    (r"@openai/agents: tools/.*/execution", "^None$", FLAT,
     "The library drops `execution` in a session of 2026-07-28, which it has with dynamic-mcp, not with the server."),
    (r"mcp-agent: (resources/|prompts/|reads/.*features).*", r"^(None|\[\])$", "meta",
     "The library lists resources and prompts once, at the start; with an empty cache and without `--first-list-wait` "
     "dynamic-mcp does not know them yet, and says so later with `list_changed`."),
    (r".*/((_?meta|metadata)(/.*serverInfo.*)?|resultType|result_type|cacheScope|cache_scope|ttlMs|ttl_ms)",
     "serverInfo|^complete$|^private$|^0$|^dynamic-mcp$|^0.1.0$", ".*",
     "The client uses 2026-07-28, and the server was reached by the handshake: dynamic-mcp adds what that revision "
     "requires in an answer, with its own name."),
]


def reason_for(library, way, path, through):
    """The reason for a difference, or None."""
    for paths, value, ways, reason in DECIDED:
        named = any(re.fullmatch(paths, text) for text in (path, f"{library}: {path}"))
        if named and re.search(value, str(through), re.S) and re.fullmatch(ways, way):
            return reason
    return None
