#!/usr/bin/python3
"""Python functions that a C library calls, by ctypes.

    c_callbacks.py LIBRARY
"""

import ctypes
import sys

from cases import BASE, EXPONENT, MODULUS, Cases

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
LIBRARY = ctypes.CDLL(sys.argv[1])


def compare_through_c(callee):
    def compare(left, right):
        callee(BASE, EXPONENT, MODULUS)
        return left[0] - right[0]

    numbers = (ctypes.c_int * 3)(3, 1, 2)
    return LIBRARY.call_from_c(COMPARE(compare), numbers, 3)


def main():
    cases = Cases()
    cases.run(compare_through_c, 4)
    cases.print()


main()
