"""A server of revision 2026-07-28 with two skills, for the conformance suite."""
import hashlib, json, sys

VERSION = "2026-07-28"
EXTENSION = "io.modelcontextprotocol/skills"
FILES = {
    "skill://refunds/SKILL.md": "---\nname: refunds\ndescription: How refunds are made\n---\nSee examples/email.md\n",
    "skill://refunds/examples/email.md": "Dear customer\n",
    "skill://acme/report/SKILL.md": "---\nname: report\ndescription: How a report is written\nlicense: MIT\n---\nWrite it.\n",
}
FRONTMATTER = {
    "skill://refunds/SKILL.md": {"name": "refunds", "description": "How refunds are made"},
    "skill://acme/report/SKILL.md": {"name": "report", "description": "How a report is written", "license": "MIT"},
}
HINTS = {"ttlMs": 60000, "cacheScope": "public"}


def skill(uri):
    root = uri.removesuffix("/SKILL.md")
    files = [
        {"uri": file, "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "size": len(text.encode())}
        for file, text in FILES.items() if file.startswith(root + "/")
    ]
    return {"uri": uri, "frontmatter": FRONTMATTER[uri], "resources": files}


def resource(uri):
    meta = FRONTMATTER.get(uri, {"name": uri.rsplit("/", 1)[1]})
    return {"uri": uri, "mimeType": "text/markdown", **{k: meta[k] for k in ("name", "description") if k in meta}}


def directory(uri):
    children = {}
    for file in FILES:
        if file.startswith(uri + "/"):
            head, _, rest = file[len(uri) + 1 :].partition("/")
            child = f"{uri}/{head}"
            children[child] = {"uri": child, "name": head, "mimeType": "inode/directory"} if rest else resource(child)
    if not children or "://" not in uri or uri.endswith("/"):
        raise KeyError(uri)
    return list(children.values())


def answer(method, params):
    match method:
        case "server/discover":
            capabilities = {"resources": {}, "tools": {}, "extensions": {EXTENSION: {"directoryRead": True}}}
            return {"supportedVersions": [VERSION], "capabilities": capabilities, **HINTS}
        case "tools/list":
            return {"tools": [], **HINTS}
        case "resources/list":
            return {"resources": [resource(uri) for uri in FILES], **HINTS}
        case "resources/templates/list":
            return {"resourceTemplates": [], **HINTS}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "mimeType": "text/markdown", "text": FILES[params["uri"]]}], **HINTS}
        case "skills/list":
            uris = list(FRONTMATTER)
            page = int(params.get("cursor", "0"))
            more = {"nextCursor": str(page + 1)} if page + 1 < len(uris) else {}
            return {"skills": [skill(uris[page])], **more, **HINTS}
        case "skills/get":
            return {"skill": skill(params["uri"]), **HINTS}
        case "resources/directory/read":
            return {"resources": directory(params["uri"])}
    raise NotImplementedError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        params = message.get("params", {})
        result = {"resultType": "complete", **answer(message["method"], params)}
        result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "skills", "version": "1"}}
        reply["result"] = result
    except (KeyError, ValueError, IndexError) as error:
        reply["error"] = {"code": -32602, "message": f"not found: {error}"}
    except NotImplementedError:
        reply["error"] = {"code": -32601, "message": "method not found"}
    print(json.dumps(reply), flush=True)
