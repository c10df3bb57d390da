#!/usr/bin/python3
"""A child without exec: what it runs after the fork has addresses that the parent uses for other functions."""

import os
import time

from cases import print_truth

SOURCE = """
def {name}(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""


def run(name):
    made = {"time": time}
    exec(compile(SOURCE.format(name=name), name + ".py", "exec"), made)
    made[name](1.0)


def before_fork():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        pass


def main():
    before_fork()
    child = os.fork()
    if child == 0:
        run("work_of_child")
        os._exit(0)
    run("work_of_parent")
    os.waitpid(child, 0)
    print_truth(parent=os.getpid(), child=child, cases=[])


main()
