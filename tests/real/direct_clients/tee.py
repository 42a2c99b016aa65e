"""Runs a server and writes each message to a log: python tee.py LOG COMMAND...

A line of the log is "> " or "< " and a message of the client or of the server.
"""

import os
import signal
import subprocess
import sys
import threading


def copy(source, target, mark, log):
    """Copies lines until the end of the source, and closes the target."""
    try:
        for line in source:
            log.write(mark + line)
            target.write(line)
            target.flush()
    except (BrokenPipeError, ValueError):
        pass
    try:
        target.close()
    except BrokenPipeError:
        pass


def main():
    log = open(sys.argv[1], "ab", buffering=0)
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: server.send_signal(received))
    threading.Thread(target=copy, args=(sys.stdin.buffer, server.stdin, b"> ", log), daemon=True).start()
    answers = threading.Thread(target=copy, args=(server.stdout, sys.stdout.buffer, b"< ", log), daemon=True)
    answers.start()
    code = server.wait()
    answers.join(2)
    # Not sys.exit, because a thread may still read stdin.
    os._exit(code if code >= 0 else 128 - code)


main()
