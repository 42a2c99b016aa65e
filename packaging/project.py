"""What Cargo.toml says about the project, and the targets of a release.

The modules beside this one make packages from release archives, one kind each: `npm`, `pypi`, `bundle` (Claude Desktop),
`homebrew`, `registry` (server.json of the MCP registry). `.ci/release` runs them. Nothing here has a name, a version or
an address of its own: all of them come from Cargo.toml.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
# What the crates share stands in the workspace.
PACKAGE = MANIFEST["package"] | MANIFEST["workspace"]["package"]

PROGRAM = PACKAGE["name"]
VERSION = PACKAGE["version"]
DESCRIPTION = PACKAGE["description"]
# At most 100 characters, for the MCP registry.
SUMMARY = DESCRIPTION.split(":")[0]
LICENSE = PACKAGE["license"]
KEYWORDS = PACKAGE["keywords"]
REPOSITORY = PACKAGE["repository"]
# The name on npm and PyPI.
PUBLISHED = PACKAGE["metadata"]["published"]["name"]
# The same as the name of a Python module.
MODULE = PUBLISHED.replace("-", "_")
OWNER, REPOSITORY_NAME = REPOSITORY.removeprefix("https://github.com/").split("/")
# The namespace of the MCP registry that belongs to the account on GitHub.
REGISTRY_NAME = f"io.github.{OWNER}/{REPOSITORY_NAME}"
DOWNLOADS = f"{REPOSITORY}/releases/download/v{VERSION}"

# The targets that every release has.
RELEASED = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
]
# The last one is for a machine without Microsoft's linker.
TARGETS = [*RELEASED, "x86_64-pc-windows-gnu"]

# The platforms of npm, with the targets that can serve them, best first. The static binary runs on every Linux.
PLATFORMS = {
    "linux-x64": ["x86_64-unknown-linux-musl", "x86_64-unknown-linux-gnu"],
    "linux-arm64": ["aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu"],
    "darwin-x64": ["x86_64-apple-darwin"],
    "darwin-arm64": ["aarch64-apple-darwin"],
    "win32-x64": ["x86_64-pc-windows-msvc", "x86_64-pc-windows-gnu"],
    "win32-arm64": ["aarch64-pc-windows-msvc"],
}


def is_windows(target):
    return "-windows-" in target


def program_file(target):
    return f"{PROGRAM}.exe" if is_windows(target) else PROGRAM


def archive_stem(target):
    """The name of an archive without its extension, which is also the folder in it."""
    return f"{PROGRAM}-{VERSION}-{target}"


def archive_name(target):
    return archive_stem(target) + (".zip" if is_windows(target) else ".tar.gz")


def readme():
    """README.md for a package: links lead to the repository, and the mark proves to the MCP registry whose it is."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{REPOSITORY}/raw/v{VERSION}/", text)
    text = re.sub(r"(?<!!)(\[[^\]]*\]\()(?!https?:|#)", rf"\1{REPOSITORY}/blob/v{VERSION}/", text)
    return f"{text}\n<!-- mcp-name: {REGISTRY_NAME} -->\n"
