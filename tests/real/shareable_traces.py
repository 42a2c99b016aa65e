"""What calls leave outside of the answers: files, open files, processes, ports, the directory and the umask."""

import os
import re
from pathlib import Path

# Bytecode that Python writes when it first imports a module.
BYTECODE = re.compile(r"__pycache__|\.pyc(\.\d+)?$")


def files_below(place):
    """Maps each file and directory to its size and time of change; a directory only to its existence."""
    found = {}
    for folder, folders, names in os.walk(place):
        for name in folders + names:
            path = os.path.join(folder, name)
            if BYTECODE.search(path):
                continue
            try:
                about = os.lstat(path)
            except OSError:
                continue
            found[path] = () if name in folders else (about.st_size, about.st_mtime_ns, about.st_ino)
    return found


def descendants(pid):
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found, open_ones = [], [pid]
    while open_ones:
        found.append(open_ones.pop())
        open_ones += children.get(found[-1], [])
    return found


def written_files(pid):
    """Files that a process has open for writing, also those that are deleted or only in memory."""
    found = set()
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)
            flags = int(re.search(r"flags:\s*(\d+)", Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text())[1], 8)
        except OSError:
            continue
        if target.startswith("/") and not target.startswith("/dev/") and flags & 3:
            found.add(target)
    return found


def state_of(pid):
    """The working directory, umask, processes and open files of a server."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        processes = descendants(pid)
        return {"directory": os.readlink(f"/proc/{pid}/cwd"), "umask": re.search(r"Umask:\s*(\d+)", status)[1],
                "processes": processes,
                "files": set().union(*map(written_files, processes))}
    except OSError:
        return None


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return str(pid)


def listening_ports():
    """The ports on which processes of this network namespace listen."""
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        try:
            rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            local, state = row.split()[1], row.split()[3]
            if state == "0A" or table.startswith("udp"):
                found.add(int(local.rsplit(":", 1)[1], 16))
    return found


class Traces:
    """`places` are looked through after each process, `install_places` at the end."""

    def __init__(self, places, install_places, own_port):
        self.places, self.install_places, self.own_port = places, install_places, own_port
        self.before = self.look(places)
        self.installed = self.look(install_places)

    @staticmethod
    def look(places):
        found = {}
        for place in places:
            found.update(files_below(place))
        return found

    def of(self, pid):
        return state_of(pid)

    def left(self, client):
        """What is left while the process still runs."""
        before, after = client.traces, state_of(client.process.pid)
        if before is None or after is None:
            return ["its process ends by itself"]
        found = []
        if before["directory"] != after["directory"]:
            found.append(f"a call changes its working directory to {after['directory']}")
        if before["umask"] != after["umask"]:
            found.append("a call changes its umask")
        if more := after["files"] - before["files"]:
            found.append(f"it keeps files open for writing: {', '.join(sorted(more)[:3])}")
        if more := set(after["processes"]) - set(before["processes"]):
            found.append(f"calls leave processes running: {', '.join(sorted(map(name_of, more))[:3])}")
        if ports := listening_ports() - {self.own_port}:
            found.append(f"it listens on a port: {', '.join(map(str, sorted(ports)))}")
        return found

    def written(self, everywhere=False):
        """What was written since the first process started."""
        places = [(self.places, self.before)] + ([(self.install_places, self.installed)] if everywhere else [])
        changed = []
        for place, before in places:
            after = self.look(place)
            changed += [path for path in {*before, *after} if before.get(path) != after.get(path)]
        return [f"it writes files: {', '.join(sorted(changed)[:3])}"] if changed else []
