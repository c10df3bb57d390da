#!/usr/bin/python3
"""Two functions that wait, and how long by their own clock; the form is that of tests/workloads/waits.c."""

import json
import threading
import time


def sleep_often():
    for _ in range(300):
        time.sleep(0.002)


def sleep_long():
    time.sleep(1.0)


def wait_for_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.5)


def main():
    functions = {}
    for function, count in ((sleep_often, 300), (sleep_long, 1), (wait_for_lock, 1)):
        started = time.monotonic_ns()
        function()
        functions[function.__name__] = {"count": count, "ns": time.monotonic_ns() - started, "switches": count}
    print(json.dumps({"functions": functions, "threads": {}}), flush=True)


main()
