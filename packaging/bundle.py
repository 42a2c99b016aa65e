"""The bundle for Claude Desktop (.mcpb): the binary of each system. It reads the default config file and asks nothing: without
that file it starts without servers, and the prompt `setup` or the status page takes over those that there are.

The format is that of github.com/modelcontextprotocol/mcpb, MANIFEST.md. A bundle chooses by system, not by processor:
macOS gets one file for both processors, and Windows on ARM runs the x86-64 program.
"""

import json
import struct

import archives
import project

# The systems of a manifest, with the platforms whose programs they can run.
SYSTEMS = {"darwin": ["darwin-x64", "darwin-arm64"], "win32": ["win32-x64"], "linux": ["linux-x64"]}
# Programs in a universal file begin at multiples of 16 KiB, the largest page of macOS.
ALIGNMENT = 14


def universal(programs):
    """One Mach-O file of several for one processor each (mach-o/fat.h)."""
    header = struct.pack(">II", 0xCAFEBABE, len(programs))
    body_at = 8 + 20 * len(programs)
    entries, body = b"", b""
    for program in programs:
        magic, processor, variant = struct.unpack("<III", program[:12])
        if magic != 0xFEEDFACF:
            raise ValueError("not a 64-bit Mach-O file")
        body += b"\0" * (-(body_at + len(body)) % (1 << ALIGNMENT))
        entries += struct.pack(">IIIII", processor, variant, body_at + len(body), len(program), ALIGNMENT)
        body += program
    return header + entries + body


def targets_of(out, platforms):
    """The target of each platform that has an archive."""
    targets = [archives.first_target(out, project.PLATFORMS[platform]) for platform in platforms]
    return [target for target in targets if target is not None]


def manifest(entries):
    """The manifest for the systems in `entries`, which has the path of each one's program."""
    commands = {system: {"command": f"${{__dirname}}/{path}"} for system, path in entries.items()}
    first = next(iter(entries))
    return {
        "manifest_version": "0.3",
        "name": project.PUBLISHED,
        "display_name": project.PROGRAM,
        "version": project.VERSION,
        "description": project.DESCRIPTION,
        "author": {"name": f"The {project.PROGRAM} authors"},
        "repository": {"type": "git", "url": project.REPOSITORY},
        "license": project.LICENSE,
        "keywords": project.KEYWORDS,
        "server": {
            "type": "binary",
            "entry_point": entries[first],
            "mcp_config": {
                **commands[first],
                "args": [],
                "env": {},
                "platform_overrides": commands,
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {"platforms": list(entries)},
    }


def make(out):
    """Makes the bundle of the systems that have an archive. Returns its file, or nothing without any."""
    files, entries = {}, {}
    for system, platforms in SYSTEMS.items():
        targets = targets_of(out, platforms)
        if not targets:
            continue
        entries[system] = f"server/{system}/{project.program_file(targets[0])}"
        programs = [archives.program_of(out, target) for target in targets]
        program = universal(programs) if system == "darwin" else programs[0]
        files[entries[system]] = (program, 0o755)
    if not entries:
        return None
    files["manifest.json"] = ((json.dumps(manifest(entries), indent=2) + "\n").encode(), 0o644)
    files["LICENSE"] = ((project.ROOT / "LICENSE").read_bytes(), 0o644)
    path = out / f"{project.PROGRAM}-{project.VERSION}.mcpb"
    archives.pack_zip(path, files)
    archives.write_checksum(path)
    return path
