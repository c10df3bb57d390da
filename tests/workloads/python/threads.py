#!/usr/bin/python3
"""Four threads, each in a function of its own."""

import threading
import time

from cases import print_truth

SECONDS = 0.6


def spin_a(end):
    while time.thread_time() < end:
        pass


def spin_b(end):
    while time.thread_time() < end:
        pass


def spin_c(end):
    while time.thread_time() < end:
        pass


def spin_d(end):
    while time.thread_time() < end:
        pass


def main():
    cases = []

    def run(function):
        started = time.thread_time_ns()
        function(time.thread_time() + SECONDS)
        cases.append({"name": function.__name__, "ns": time.thread_time_ns() - started, "stack": []})

    threads = [threading.Thread(target=run, args=(function,)) for function in (spin_a, spin_b, spin_c, spin_d)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_truth(cases=cases)


main()
