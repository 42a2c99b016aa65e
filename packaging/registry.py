"""server.json, which lists the packages in the MCP registry.

The registry compares its name with `mcpName` of the npm package and with the mark in the README of the PyPI package.
"""

import json

import archives
import project

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


def package(kind, identifier, **more):
    return {"registryType": kind, "identifier": identifier, "transport": {"type": "stdio"}, **more}


def make(out, bundle):
    """Writes server.json. `bundle` is the file of the bundle for Claude Desktop, if there is one."""
    packages = [package(kind, project.PUBLISHED, version=project.VERSION) for kind in ("npm", "pypi")]
    if bundle is not None:
        url = f"{project.DOWNLOADS}/{bundle.name}"
        packages.append(package("mcpb", url, fileSha256=archives.checksum(bundle)))
    server = {
        "$schema": SCHEMA,
        "name": project.REGISTRY_NAME,
        "title": project.PROGRAM,
        "description": project.SUMMARY,
        "version": project.VERSION,
        "repository": {"url": project.REPOSITORY, "source": "github"},
        "packages": packages,
    }
    path = out / "server.json"
    path.write_text(json.dumps(server, indent=2) + "\n", encoding="utf-8", newline="\n")
    return path
