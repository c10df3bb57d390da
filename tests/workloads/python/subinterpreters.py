#!/usr/bin/python3
"""A second interpreter in the same thread (3.12 and later): the thread has another state then.

Exits with 77 where the module of the tests is not there.
"""

import sys
import time

from cases import print_truth

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    try:
        import _interpreters as interpreters
    except ImportError:
        sys.exit(77)
if sys.version_info < (3, 12):
    sys.exit(77)

SOURCE = """
import time

def inside():
    end = time.thread_time() + 1.0
    while time.thread_time() < end:
        pass

inside()
"""


def outside():
    end = time.thread_time() + 1.0
    while time.thread_time() < end:
        pass


def run_inside():
    interpreter = interpreters.create()
    interpreters.run_string(interpreter, SOURCE)
    interpreters.destroy(interpreter)


def main():
    outside()
    run_inside()
    print_truth(cases=[{"name": "outside", "ns": 1000000000, "stack": []},
                       {"name": "inside", "ns": 1000000000, "stack": []}])


main()
