#!/usr/bin/python3
"""Functions that are made, run for some milliseconds and freed, so that the next one has their addresses.

    reuse.py SECONDS [MILLISECONDS]

Before each call the thread gets the function's name, so each sample says by itself which function ran. `driver` frames
are what lies between two calls. Names end in letters, since profd shows the numbers at their ends as `#`.
"""

import ctypes
import sys
import time

from cases import print_truth

PR_SET_NAME = 15
LETTERS = "abcdefghijklmnopqrstuvw"

# All are of one file and have one first line.
FILE = "made.py"
SOURCE = """
def {name}(end, clock):
    {padding}
    total = 0
    while clock() < end:
        for i in range(50):
            total += i
    return total
"""


def names():
    while True:
        for first in LETTERS:
            for second in LETTERS:
                yield "work_" + first + second


def make(name, number):
    """Bodies of one size for a while, so that names and line tables have used addresses too; then of different ones,
    so that freed blocks are used again by other kinds of objects."""
    made = {}
    lengths = 1 if number // len(LETTERS) % 2 == 0 else 1 + number % 5
    source = SOURCE.format(name=name, padding="; ".join(["x = %d" % (number % 7)] * lengths))
    exec(compile(source, FILE, "exec"), made)
    return made[name]


def driver(seconds, milliseconds):
    libc = ctypes.CDLL(None)
    end = time.monotonic() + seconds
    reused, addresses, calls = 0, set(), 0
    for name in names():
        if time.monotonic() > end:
            break
        function = make(name, calls)
        address = id(function.__code__)
        reused += address in addresses
        addresses.add(address)
        libc.prctl(PR_SET_NAME, name.encode())
        function(time.thread_time() + milliseconds / 1000, time.thread_time)
        libc.prctl(PR_SET_NAME, b"driver")
        del function
        calls += 1
    return calls, reused


def main():
    calls, reused = driver(float(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 6)
    print_truth(calls=calls, reused=reused, cases=[])


main()
