"""The Homebrew formula, for a tap (a repository named homebrew-tap)."""

import archives
import project

# What Homebrew calls the systems and processors. Linux gets the static binary.
BRANCHES = {
    "macos": {"arm": "aarch64-apple-darwin", "intel": "x86_64-apple-darwin"},
    "linux": {"arm": "aarch64-unknown-linux-musl", "intel": "x86_64-unknown-linux-musl"},
}


def branches(out):
    for system, processors in BRANCHES.items():
        found = {name: target for name, target in processors.items() if archives.first_target(out, [target])}
        if not found:
            continue
        yield f"  on_{system} do"
        for processor, target in found.items():
            name = project.archive_name(target)
            yield f"    on_{processor} do"
            yield f'      url "{project.DOWNLOADS}/{name}"'
            yield f'      sha256 "{archives.checksum(out / name)}"'
            yield "    end"
        yield "  end"
        yield ""


def make(out):
    """Writes the formula for the archives that exist. Returns its file, or nothing without any."""
    lines = list(branches(out))
    if not lines:
        return None
    name = "".join(part.capitalize() for part in project.PROGRAM.split("-"))
    # Homebrew wants a description of at most 80 characters without a full stop.
    text = "\n".join(
        [
            f"class {name} < Formula",
            f'  desc "{project.SUMMARY}"',
            f'  homepage "{project.REPOSITORY}"',
            f'  version "{project.VERSION}"',
            f'  license "{project.LICENSE}"',
            "",
            *lines,
            "  def install",
            f'    bin.install "{project.PROGRAM}"',
            f'    generate_completions_from_executable(bin/"{project.PROGRAM}", "completions")',
            f'    man1.install "man/man1/{project.PROGRAM}.1"',
            "  end",
            "",
            "  test do",
            f'    assert_match version.to_s, shell_output("#{{bin}}/{project.PROGRAM} --version")',
            "  end",
            "end",
            "",
        ]
    )
    path = out / f"{project.PROGRAM}.rb"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
