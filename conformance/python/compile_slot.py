"""Run a compiler when one of a few slots is free: a build that asks for as many jobs as it likes gets as many as the machine has cores.

usage: compile_slot.py FOLDER COMPILER ARGS…     (FOLDER holds the slots' lock files; set by CMAKE_CXX_COMPILER_LAUNCHER)
"""
import fcntl
import os
import pathlib
import sys
import time

folder, *command = sys.argv[1:]
files = [open(pathlib.Path(folder) / f"slot-{i}", "w") for i in range(os.cpu_count() or 1)]  # noqa: SIM115 - kept open by exec
while True:
    for file in files:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        os.set_inheritable(file.fileno(), True)
        os.execvp(command[0], command)
    time.sleep(0.1)
