"""FastMCP's proxy of a server over HTTP, for the bench `team`: fastmcp_proxy.py PORT URL"""
import sys

from fastmcp.server import create_proxy

proxy = create_proxy(sys.argv[2])
proxy.run(
    transport="http",
    host="127.0.0.1",
    port=int(sys.argv[1]),
    path="/mcp",
    show_banner=False,
    log_level="ERROR",
    stateless_http=True,
    json_response=True,
)
