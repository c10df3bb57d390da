#!/usr/bin/python3
"""So many functions, each of which runs again and again: what their names cost the profiler.

    many_codes.py COUNT SECONDS
"""

import sys
import time

from cases import print_truth

SOURCE = """
def function_{i}(values):
    total = 0
    for value in values:
        if value & 1:
            total += value * {i}
        else:
            total -= value
    for value in values:
        total ^= value
    return total
"""


def main(count, seconds):
    functions = []
    for i in range(count):
        made = {}
        exec(compile(SOURCE.format(i=i), "/srv/app/module_%d.py" % (i // 30), "exec"), made)
        functions.append(made["function_%d" % i])
    print("running", flush=True)
    end = time.monotonic() + seconds
    values = list(range(300))
    while time.monotonic() < end:
        for function in functions:
            function(values)
    print_truth(cases=[])


main(int(sys.argv[1]), float(sys.argv[2]))
