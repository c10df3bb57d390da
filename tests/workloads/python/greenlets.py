#!/usr/bin/python3
"""Greenlets, where the module is there: their chains end at their start, and the C stacks of others lie below.

Exits with 77 without greenlet.
"""

import sys
import time

from cases import print_truth

try:
    import greenlet
except ImportError:
    sys.exit(77)


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def first():
    for _ in range(20):
        spin(0.02)
        second_one.switch()


def second():
    for _ in range(20):
        spin(0.02)
        first_one.switch()


first_one = greenlet.greenlet(first)
second_one = greenlet.greenlet(second)
first_one.switch()
print_truth(cases=[], pairs=[["first", "spin"], ["second", "spin"]])
