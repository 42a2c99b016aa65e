"""The PyPI package: maturin puts the binary into a wheel (`bindings = "bin"`), and a module of the package's name runs it,
so that `uvx NAME` and `python -m NAME` work.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import zipfile

import archives
import project

# On Unix the module becomes the binary. Windows has no exec, so there it waits, and ends as the binary does.
SOURCE = '''\
"""Runs {program}, which is installed beside Python."""

import os
import subprocess
import sys
import sysconfig


def find():
    """The path of the binary: in the environment of this module, or in that of the user."""
    name = "{program}" + (sysconfig.get_config_var("EXE") or "")
    user = sysconfig.get_preferred_scheme("user")
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user)]
    for folder in folders:
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    sys.exit(f"{program}: {{name}} is not in {{' or '.join(folders)}}. Install the package again.")


def main():
    command = [find(), *sys.argv[1:]]
    if os.name == "posix":
        os.execv(command[0], command)
    process = subprocess.Popen(command)
    while True:
        try:
            sys.exit(process.wait())
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
'''


def stage(folder):
    """Writes the Python project that maturin builds."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "python" / project.MODULE).mkdir(parents=True)
    text = SOURCE.format(program=project.PROGRAM)
    (folder / "python" / project.MODULE / "__init__.py").write_text(text, encoding="utf-8")
    (folder / "python" / project.MODULE / "__main__.py").write_text("from . import main\n\nmain()\n", encoding="utf-8")
    (folder / "README.md").write_text(project.readme(), encoding="utf-8")
    shutil.copy(project.ROOT / "LICENSE", folder)
    # A string of JSON is one of TOML.
    text = {name: json.dumps(value) for name, value in vars(project).items() if isinstance(value, str | list)}
    manifest = json.dumps(os.path.relpath(project.ROOT / "Cargo.toml", folder).replace(os.sep, "/"))
    (folder / "pyproject.toml").write_text(
        f"""\
[build-system]
requires = ["maturin>=1.9,<2"]
build-backend = "maturin"

[project]
name = {text["PUBLISHED"]}
version = {text["VERSION"]}
description = {text["DESCRIPTION"]}
readme = "README.md"
license = {text["LICENSE"]}
license-files = ["LICENSE"]
requires-python = ">=3.10"
keywords = {text["KEYWORDS"]}
urls = {{ Repository = {text["REPOSITORY"]} }}

[tool.maturin]
bindings = "bin"
manifest-path = {manifest}
module-name = {text["MODULE"]}
python-source = "python"
""",
        encoding="utf-8",
    )


def add_entry_point(wheel, out):
    """Writes the wheel to the folder `out` with the command of the package's name (packaging.python.org, "entry points")."""
    name = f"{project.MODULE}-{project.VERSION}.dist-info/entry_points.txt"
    text = f"[console_scripts]\n{project.PUBLISHED} = {project.MODULE}:main\n".encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    files = {}
    with zipfile.ZipFile(wheel) as packed:
        for entry in packed.infolist():
            files[entry.filename] = (packed.read(entry), (entry.external_attr >> 16) & 0o777 or 0o644)
    record = f"{project.MODULE}-{project.VERSION}.dist-info/RECORD"
    content, mode = files[record]
    files[record] = (content.rstrip(b"\n") + f"\n{name},sha256={digest},{len(text)}\n".encode(), mode)
    files[name] = (text, 0o644)
    archives.pack_zip(out / wheel.name, files)
    return out / wheel.name


def make(out, target, profile, environment):
    """Builds the wheel of a target, with the binary that cargo has built already. Returns whether that worked."""
    folder = out / "pypi"
    stage(folder)
    command = ["maturin", "build", "--locked", "--target", target, "--profile", profile, "--out", str(folder / "built")]
    if target.endswith("-musl"):
        # A static binary runs with any C library.
        command += ["--compatibility", "manylinux2014", "musllinux_1_1"]
    if subprocess.run(command, cwd=folder, env=environment).returncode != 0:
        return False
    for wheel in (folder / "built").glob("*.whl"):
        print(add_entry_point(wheel, out))
    return True
