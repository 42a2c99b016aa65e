"""`.ci/release try` for Windows: its packages, installed and run under Wine, if `.ci/cross` has installed that and node."""

import os
import subprocess
import zipfile

import archives
import project

WINE = project.ROOT / ".ci" / "wine"
PLATFORM = "win32-x64"


def tools():
    """Where `.ci/cross` installs."""
    return os.environ.get("CARGO_TARGET_DIR", f"{project.ROOT}/target") + "/tools"


def seen(path):
    """The path as a Windows program sees it."""
    return "Z:" + str(path).replace("/", "\\")


def needs(path):
    if not os.path.exists(path):
        raise LookupError(f"there is no {path}; .ci/cross installs it")


def target_in(out):
    needs(os.environ.get("DYNAMIC_MCP_WINE_ROOT", f"{tools()}/wine") + "/usr/bin/wine-stable")
    target = archives.first_target(out, project.PLATFORMS[PLATFORM])
    if target is None:
        raise LookupError("there is no archive for Windows")
    return target


def archive(out, folder):
    target = target_in(out)
    with zipfile.ZipFile(out / project.archive_name(target)) as packed:
        packed.extractall(folder)
    program = seen(folder / project.archive_stem(target) / project.program_file(target))
    return [WINE, program], program


def npm(out, folder):
    target_in(out)
    node = f"{tools()}/node-win"
    needs(f"{node}/node.exe")
    (folder / "package.json").write_text('{"private": true}')
    names = (f"{project.PUBLISHED}-{PLATFORM}", project.PUBLISHED)
    files = [seen(out / f"{name}-{project.VERSION}.tgz") for name in names]
    run = [WINE, seen(f"{node}/node.exe")]
    install = [seen(f"{node}/node_modules/npm/bin/npm-cli.js"), "install", "--offline", "--no-audit", "--no-fund"]
    # To a file: under Wine, node cannot open a pipe as its stdout.
    with open(folder / "npm.log", "w+b") as log:
        done = subprocess.run([*run, *install, *files], cwd=folder, stdout=log, stderr=log)
        log.seek(0)
        if done.returncode != 0:
            raise RuntimeError(log.read().decode(errors="replace"))
    modules = folder / "node_modules"
    program = seen(modules / names[0] / "bin" / f"{project.PROGRAM}.exe")
    return [*run, seen(modules / names[1] / "bin" / "launcher.js")], program
