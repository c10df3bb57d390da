#!/usr/bin/python3
"""Calls, yields, raises, sorts and execs without end: the states between two frames, as often as they can be.

    races.py SECONDS

Prints which function calls which. Each is called from one place alone, so that any other pair in a stack is a lie of
the profiler: a frame that is gone, or one of another activation.
"""

import sys
import time

from cases import print_truth


def leaf(value):
    return value + 1


def call_leaf(value):
    return leaf(value)


def yielding(count):
    for i in range(count):
        yield i


def iterate():
    total = 0
    for value in yielding(3):
        total += value
    return total


def raising():
    raise KeyError


def catch():
    try:
        raising()
    except KeyError:
        return 1
    return 0


def key_of(item):
    return -item


def sort():
    return sorted([3, 1, 2], key=key_of)


def mapped(item):
    return item


def map_all():
    return list(map(mapped, [1, 2]))


def executed_body():
    return 1


CODE = compile("executed_body()", "<executed>", "exec")


def execute():
    exec(CODE, {"executed_body": executed_body, "__name__": "executed"})


class Made:
    def __init__(self):
        self.value = 1

    def __lt__(self, other):
        return False


def make():
    return Made()


def compare():
    return min(Made(), Made())


def recurse(depth):
    if depth:
        recurse(depth - 1)


def step():
    call_leaf(1)
    iterate()
    catch()
    sort()
    map_all()
    execute()
    make()
    compare()
    recurse(3)


def loop(end):
    while time.monotonic() < end:
        step()


PAIRS = [("<module>", "main"), ("main", "loop"), ("loop", "step"), ("step", "call_leaf"), ("call_leaf", "leaf"),
         ("step", "iterate"), ("iterate", "yielding"), ("step", "catch"), ("catch", "raising"), ("step", "sort"),
         ("sort", "key_of"), ("step", "map_all"), ("map_all", "mapped"), ("step", "execute"), ("execute", "<module>"),
         ("<module>", "executed_body"), ("step", "make"), ("make", "__init__"), ("step", "compare"),
         ("compare", "__init__"), ("compare", "__lt__"), ("step", "recurse"), ("recurse", "recurse")]


def qualified(name):
    """As this version shows it."""
    if sys.version_info >= (3, 11) and name in ("__init__", "__lt__"):
        return "Made." + name
    return name


def main():
    loop(time.monotonic() + float(sys.argv[1]))
    print_truth(pairs=[[qualified(outer), qualified(inner)] for outer, inner in PAIRS], cases=[])


main()
