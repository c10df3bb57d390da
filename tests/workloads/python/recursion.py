#!/usr/bin/python3
"""One stack of many frames.

    recursion.py DEPTH
"""

import sys

from cases import BASE, EXPONENT, MODULUS, Cases


def deeper(depth, callee):
    if depth > 1:
        return deeper(depth - 1, callee)
    return callee(BASE, EXPONENT, MODULUS)


def through_c(depth, callee):
    """A native eval frame for each Python frame, in all versions."""
    if depth > 1:
        return max(map(lambda depth: through_c(depth, callee), [depth - 1]))
    return callee(BASE, EXPONENT, MODULUS)


def main(depth):
    sys.setrecursionlimit(4 * depth + 1000)
    cases = Cases()
    cases.run(lambda callee: deeper(depth, callee), 1)
    if depth <= 20:
        cases.run(lambda callee: through_c(depth, callee), 1)
    cases.print()


main(int(sys.argv[1]))
