#!/usr/bin/python3
"""Functions with 60, 25 and 15 % of the CPU time, all of it in bytecode.

    shares.py SECONDS
"""

import json
import sys
import time


def work_f(count):
    total = 0
    for i in range(count):
        total += i * i & 7
    return total


def work_g(count):
    total = 0
    for i in range(count):
        total += i * i & 7
    return total


def work_h(count):
    total = 0
    for i in range(count):
        total += i * i & 7
    return total


class Worker:
    def __init__(self):
        self.used = {"work_f": 0, "work_g": 0, "work_h": 0}

    def measure(self, function, count):
        started = time.thread_time_ns()
        function(count)
        self.used[function.__name__] += time.thread_time_ns() - started

    def round(self):
        self.measure(work_f, 60000)
        self.measure(work_g, 25000)
        self.measure(work_h, 15000)


def main(seconds):
    worker = Worker()
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        worker.round()
    cases = [{"name": name, "ns": used, "stack": []} for name, used in worker.used.items()]
    print(json.dumps({"python": {"cases": cases, "version": list(sys.version_info[:3])}}), flush=True)


main(float(sys.argv[1]))
