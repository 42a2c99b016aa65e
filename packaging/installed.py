"""`.ci/release try`: every package that was made for this machine, installed into a clean folder and run (`session`); those
for Windows under Wine (`wine`).
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import archives
import project
import session
import wine

PLATFORM = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}.get(platform.machine())


def call(*command, **options):
    """Runs a command that must succeed, and shows what it says otherwise."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise LookupError(f"{', '.join(missing)} is not installed")


def archive(out, folder, target):
    call("sha256sum", "--check", f"{project.archive_name(target)}.sha256", cwd=out)
    with tarfile.open(out / project.archive_name(target)) as tar:
        tar.extractall(folder, filter="data")
    unpacked = folder / project.archive_stem(target)
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "completions/dynamic-mcp.bash"):
        assert (unpacked / name).is_file(), name
    program = unpacked / project.PROGRAM
    return [program], program


def npm(out, folder):
    needs("npm")
    (folder / "package.json").write_text('{"private": true}')
    files = [out / f"{name}-{project.VERSION}.tgz" for name in (f"{project.PUBLISHED}-{PLATFORM}", project.PUBLISHED)]
    call("npm", "install", "--no-audit", "--no-fund", *files, cwd=folder)
    program = folder / "node_modules" / f"{project.PUBLISHED}-{PLATFORM}" / "bin" / project.PROGRAM
    npx = ["env", f"--chdir={folder}", "npx", "--no", "--", project.PROGRAM]
    assert project.VERSION in call(*npx, "--version")
    return npx, program


def wheel_of(out):
    machine = platform.machine()
    wheels = [path for path in out.glob("*.whl") if machine in path.name]
    if not wheels:
        raise LookupError("no wheel was made for this machine")
    return sorted(wheels)[0]


def pip(out, folder):
    call(sys.executable, "-m", "venv", folder / "venv")
    call(folder / "venv" / "bin" / "pip", "install", "--no-index", wheel_of(out))
    program = folder / "venv" / "bin" / project.PROGRAM
    call(folder / "venv" / "bin" / "python", "-m", project.MODULE, "--version")
    return [folder / "venv" / "bin" / project.PUBLISHED], program


def uvx(out, folder):
    needs("uvx")
    environment = ["env", f"UV_CACHE_DIR={folder}/cache", f"UV_TOOL_DIR={folder}/tools"]
    command = [*environment, "uvx", "--no-index", "--from", wheel_of(out), project.PUBLISHED]
    call(*command, "--version")
    program = next((folder / "cache").rglob(f"bin/{project.PROGRAM}"))
    return command, program


def bundle(out, folder):
    """As Claude Desktop does: unpacks, puts in the folder and the answers, and starts the command of this system."""
    made = out / f"{project.PROGRAM}-{project.VERSION}.mcpb"
    with zipfile.ZipFile(made) as packed:
        for entry in packed.infolist():
            path = packed.extract(entry, folder)
            os.chmod(path, (entry.external_attr >> 16) & 0o777)
    manifest = json.loads((folder / "manifest.json").read_text())
    if shutil.which("mcpb") is not None:
        call("mcpb", "validate", folder / "manifest.json")
        call("mcpb", "unpack", made, folder / "again")
    else:
        print("mcpb is not installed: the manifest is not validated", file=sys.stderr)
    config = manifest["server"]["mcp_config"]
    config |= config["platform_overrides"][sys.platform]
    command = [part.replace("${__dirname}", str(folder)) for part in [config["command"], *config["args"]]]
    return command, folder / manifest["server"]["mcp_config"]["command"].replace("${__dirname}/", "")


def main(out):
    """Prints a row for each package. Returns the exit status."""
    if sys.platform != "linux" or PLATFORM is None:
        print("only for Linux on x86-64 and ARM", file=sys.stderr)
        return 2
    made = [target for target in project.TARGETS if "linux" in target and platform.machine() in target]
    made = [target for target in made if archives.first_target(out, [target])]
    ways = {project.archive_name(target): lambda out, folder, target=target: archive(out, folder, target) for target in made}
    ways |= {"npm": npm, "PyPI, with pip": pip, "PyPI, with uvx": uvx, "bundle for Claude Desktop": bundle}
    # Windows has no SIGTERM.
    under_wine = {"archive for Windows": wine.archive, "npm for Windows": wine.npm}
    failed = False
    for name, install in (ways | under_wine).items():
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
            folder = Path(folder).resolve()
            environment = dict(os.environ, HOME=home, XDG_RUNTIME_DIR=home)
            try:
                command, program = install(out, folder)
                ends = [end for end in session.ENDS if end != "SIGTERM" or name not in under_wine]
                report = session.run(folder, [str(part) for part in command], [str(program)], environment, ends)
                print(f"{name}: {report}")
            except LookupError as reason:
                print(f"{name}: skipped: {reason}")
            except Exception as error:
                failed = True
                print(f"{name}: FAILED: {type(error).__name__}: {error}")
    return 1 if failed else 0
