"""The npm packages: one with a launcher, and one with the binary for each platform, of which npm installs the one that
fits (`os` and `cpu`). Nothing is downloaded or run at installation.
"""

import json

import archives
import project


def package_json(name, **more):
    fields = {
        "name": name,
        "version": project.VERSION,
        "description": project.DESCRIPTION,
        "license": project.LICENSE,
        "repository": {"type": "git", "url": f"git+{project.REPOSITORY}.git"},
    }
    return (json.dumps(fields | more, indent=2) + "\n").encode()


def pack(out, name, files):
    """Writes the package as `npm pack` would. npm publishes such files as they are."""
    files["LICENSE"] = ((project.ROOT / "LICENSE").read_bytes(), 0o644)
    path = out / f"{name}-{project.VERSION}.tgz"
    archives.pack_tar(path, {f"package/{file}": entry for file, entry in files.items()})
    return path


def make(out):
    """Makes the packages for all platforms that have an archive, the launcher's last. Returns their files."""
    made, platforms = [], {}
    for platform, targets in project.PLATFORMS.items():
        target = archives.first_target(out, targets)
        if target is None:
            continue
        system, cpu = platform.split("-")
        name = f"{project.PUBLISHED}-{platform}"
        platforms[name] = project.VERSION
        described = package_json(name, os=[system], cpu=[cpu], preferUnplugged=True)
        program = (archives.program_of(out, target), 0o755)
        files = {"package.json": (described, 0o644), f"bin/{project.program_file(target)}": program}
        made.append(pack(out, name, files))
    launcher = (project.ROOT / "packaging" / "npm" / "launcher.js").read_bytes()
    described = package_json(
        project.PUBLISHED,
        mcpName=project.REGISTRY_NAME,
        keywords=project.KEYWORDS,
        bin={project.PROGRAM: "bin/launcher.js"},
        engines={"node": ">=18"},
        optionalDependencies=platforms,
    )
    files = {"package.json": (described, 0o644), "bin/launcher.js": (launcher, 0o755)}
    files["README.md"] = (project.readme().encode(), 0o644)
    return [*made, pack(out, project.PUBLISHED, files)]
