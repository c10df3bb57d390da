#!/usr/bin/python3
"""A process that works for 20 ms."""

import time


def brief_work():
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass


brief_work()
