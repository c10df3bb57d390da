#!/usr/bin/python3
"""For `python3 -X perf_jit`: each Python function has a trampoline of machine code, whose name is that of the function.

    perf_agrees.py SECONDS

Recursion and callbacks make stacks with many of both.
"""

import sys
import time

from cases import print_truth


def spin(end):
    total = 0
    while time.thread_time() < end:
        for i in range(100):
            total += i
    return total


def down(depth):
    if depth:
        return down(depth - 1)
    return spin(time.thread_time() + 0.02)


def key_of(item):
    return down(item)


def sort():
    return sorted([2, 4], key=key_of)


def main():
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        sort()
    print_truth(cases=[])


main()
