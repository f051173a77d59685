"""Runs a command on a terminal and types lines: typed.py LINES COMMAND…, LINES separated by commas.

Each line is typed when the command has asked, that is, has printed `: ` or `] ` at the end. Prints what the terminal shows and ends with the
command's exit code.
"""

import os
import pty
import sys

lines, command = sys.argv[1].split(","), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
shown = b""


def read_to_end():
    global shown
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            return
        shown += read
        if lines and (shown.endswith(b": ") or shown.endswith(b"] ")):
            os.write(terminal, lines.pop(0).encode() + b"\n")
            shown += b"<typed>"


read_to_end()
_, status = os.waitpid(child, 0)
# A read may fail because the command has ended although its last line arrived in the same instant: that line is still there.
read_to_end()
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(status))
