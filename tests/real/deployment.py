"""Checks deploy/kubernetes.yaml: python deployment.py MANIFEST PROGRAM

Each object has the form that the API of Kubernetes demands. The files of the ConfigMap and the Secret, with HASH and KEY
replaced as docs/team.md says, and the container's arguments start a program that is ready and asks for tokens.
"""
import base64, hashlib, json, re, socket, subprocess, sys, tempfile, time, urllib.error, urllib.request
from pathlib import Path

import kubernetes_validate
import yaml

MANIFEST, PROGRAM = Path(sys.argv[1]), sys.argv[2]
TOKEN = "a token"


def mounted(objects, directory):
    """Writes the files of each volume. Returns where each mount path of the container is."""
    by_kind = {item["kind"]: item for item in objects}
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    sources = {volume["name"]: volume for volume in pod["volumes"]}
    places = {}
    for mount in container["volumeMounts"]:
        place = directory / mount["name"]
        place.mkdir()
        places[mount["mountPath"]] = place
        source = sources[mount["name"]]
        if "configMap" in source:
            files = by_kind["ConfigMap"]["data"]
            assert source["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]
        elif "secret" in source:
            files = by_kind["Secret"]["stringData"]
            assert source["secret"]["secretName"] == by_kind["Secret"]["metadata"]["name"]
        else:
            files = {}
        for name, text in files.items():
            text = text.replace("HASH", hashlib.sha256(TOKEN.encode()).hexdigest())
            (place / name).write_text(text.replace("KEY", base64.b64encode(bytes(32)).decode()))
    return container, places


def status(port, path, method="GET", headers={}):
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}' if method == "POST" else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, method=method, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def main(directory):
    objects = list(yaml.safe_load_all(MANIFEST.read_text()))
    for item in objects:
        kubernetes_validate.validate(item, kubernetes_validate.latest_version(), strict=True)
    container, places = mounted(objects, directory)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    args = [arg.replace("0.0.0.0:8080", f"127.0.0.1:{port}") for arg in container["args"]]
    args = [re.sub(r"=(/\w+)/", lambda found: f"={places[found[1]]}/", arg) for arg in args]
    env = {item["name"]: str(places.get(item["value"], item["value"])) for item in container["env"]}
    process = subprocess.Popen([PROGRAM, *args], env=env, stdin=subprocess.DEVNULL)
    try:
        ready = container["readinessProbe"]["httpGet"]["path"]
        for _ in range(600):
            if status(port, ready) == 200:
                break
            assert process.poll() is None, "it ended"
            time.sleep(0.1)
        host = {"Host": "tools.example.com", "Content-Type": "application/json"}
        found = {
            "healthy": status(port, container["livenessProbe"]["httpGet"]["path"]),
            "ready": status(port, ready),
            "without a token": status(port, "/mcp", "POST", host),
            "with one": status(port, "/mcp", "POST", host | {"Authorization": f"Bearer {TOKEN}"}),
            "another host": status(port, "/mcp", "POST", host | {"Host": "evil.example"}),
        }
        print(json.dumps({"kinds": [item["kind"] for item in objects], **found}))
    finally:
        process.terminate()
        process.wait()


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
