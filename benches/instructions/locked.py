#!/usr/bin/env python3
"""Counts the locked instructions of one call of 100 bytes: those that change memory which several threads share.

    benches/instructions/locked.py PROGRAM

Each takes as long as some 40 others, also if there is only one thread. They come from locks, from reference counts, and
from the runtime. The functions with the most are printed; PROGRAM must have its symbols. Linux on x86-64; needs
valgrind, objdump, nm, cc and Python 3.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import run

CALLS = 500
# `xchg` with memory is locked without the prefix.
LOCKED = re.compile(r"\s*([0-9a-f]+):\s+(lock |xchg .*\()")


def executed(program, calls):
    """Returns how often each instruction ran, by object file, address and function."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run.counts_of(program, folder, run.ROWS[0], calls, "--dump-instr=yes")
        counts = collections.Counter()
        file = function = ""
        is_callee = False
        for line in open(folder / "callgrind.out"):
            if line.startswith("ob="):
                file = line[3:].strip()
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                is_callee = True
            elif line.startswith("0x"):
                # The line after `calls=` has the cost of the callee.
                if not is_callee:
                    fields = line.split()
                    counts[file, int(fields[0], 16), function] += int(fields[-1])
                is_callee = False
        return counts


def locked(file):
    """Returns the addresses of the locked instructions in an object file."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], capture_output=True, text=True).stdout
    return {int(found[1], 16) for found in map(LOCKED.match, text.splitlines()) if found}


def main():
    program = sys.argv[1]
    few, many = executed(program, run.WARM_UP), executed(program, run.WARM_UP + CALLS)
    files = {file: locked(file) for file in {file for file, _, _ in many} if pathlib.Path(file).is_file()}
    functions = collections.Counter()
    for key, count in many.items():
        file, address, function = key
        if address in files.get(file, ()):
            functions[function] += (count - few[key]) / CALLS
    print(f"{sum(functions.values()):.0f} locked instructions in a call, of them in")
    for function, count in functions.most_common(40):
        print(f"{count:6.1f} {function}")


if __name__ == "__main__":
    main()
