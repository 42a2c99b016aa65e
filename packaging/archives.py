"""Release archives: written so that the same files give the same bytes, and read again by the makers of packages."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import time
import zipfile

import project


def file_time():
    """The time of every file in a package, in seconds since 1970: that of the commit (reproducible-builds.org)."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    git = ["git", "-C", str(project.ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(git, check=True, capture_output=True, text=True).stdout)


def pack_tar(path, files):
    """Writes a .tar.gz of `files`: pairs of name in the archive and (bytes, mode)."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as zipped:
        with tarfile.open(mode="w", fileobj=zipped, format=tarfile.PAX_FORMAT) as tar:
            for name, (content, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.mtime = len(content), mode, file_time()
                tar.addfile(entry, io.BytesIO(content))


def pack_zip(path, files):
    """Writes a .zip of `files`, which has their modes for systems that know modes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(file_time())[:6])
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)


def checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_checksum(path):
    """Writes FILE.sha256, which `sha256sum --check` reads."""
    text = f"{checksum(path)}  {path.name}\n"
    path.with_name(path.name + ".sha256").write_text(text, encoding="utf-8", newline="\n")


def make(out, target, program):
    """Makes the archive of a target from its built program."""
    stem = project.archive_stem(target)
    files = {f"{stem}/{project.program_file(target)}": (program.read_bytes(), 0o755)}
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        files[f"{stem}/{name}"] = ((project.ROOT / name).read_bytes(), 0o644)
    for script in (project.ROOT / "src/cli/completions").glob(f"{project.PROGRAM}.*"):
        files[f"{stem}/completions/{script.name}"] = (script.read_bytes(), 0o644)
    page = f"{project.PROGRAM}.1"
    files[f"{stem}/man/man1/{page}"] = ((project.ROOT / "packaging" / page).read_bytes(), 0o644)
    path = out / project.archive_name(target)
    (pack_zip if project.is_windows(target) else pack_tar)(path, files)
    write_checksum(path)
    return path


def program_of(out, target):
    """The program in the archive of a target."""
    path = out / project.archive_name(target)
    name = f"{project.archive_stem(target)}/{project.program_file(target)}"
    if project.is_windows(target):
        with zipfile.ZipFile(path) as packed:
            return packed.read(name)
    with tarfile.open(path) as tar:
        return tar.extractfile(name).read()


def first_target(out, targets):
    """The first of `targets` that has an archive."""
    return next((target for target in targets if (out / project.archive_name(target)).exists()), None)
