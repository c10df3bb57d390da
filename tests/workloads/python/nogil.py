#!/usr/bin/python3
"""Hashes in two threads, which release the GIL: the thread state that `_Py_tss_tstate` has is null meanwhile."""

import hashlib
import threading
import time

from cases import name_of, print_truth

DATA = bytes(64 << 20)


def hash_first(cases):
    measure(cases, hash_first.__code__, hashlib.sha256)


def hash_second(cases):
    measure(cases, hash_second.__code__, hashlib.sha512)


def measure(cases, code, function):
    started = time.thread_time_ns()
    while time.thread_time_ns() - started < 1_000_000_000:
        function(DATA)
    cases.append({"name": name_of(code), "ns": time.thread_time_ns() - started, "stack": []})


def main():
    cases = []
    threads = [threading.Thread(target=function, args=(cases,)) for function in (hash_first, hash_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_truth(cases=cases)


main()
