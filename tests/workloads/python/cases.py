"""What the programs of this folder share: stacks that the interpreter itself has described.

A case is a function that gets a callee and calls it somewhere below. It is first run with a callee that stores the
interpreter's own view of the stack (sys._getframe: names and lines), and then with one of C that takes long. Bytecode
and lines are the same in both, so each sample inside the long call has exactly this stack.
"""

import json
import sys
import time

# Tens of milliseconds of multiplications in C, with the GIL held.
BASE, EXPONENT, MODULUS = 3, 2**2203 - 1, 2**2281 - 1


def name_of(code):
    """Qualified since 3.11."""
    return getattr(code, "co_qualname", code.co_name)


def stack_of(frame):
    """[name, line] of each frame, leaf first."""
    stack = []
    while frame is not None:
        stack.append([name_of(frame.f_code), frame.f_lineno])
        frame = frame.f_back
    return stack


class Cases:
    def __init__(self):
        self.cases = []
        self.stack = None

    def probe(self, base, exponent, modulus):
        if self.stack is None:
            self.stack = stack_of(sys._getframe(1))
        return base

    def run(self, function, seconds=0.4):
        """One call with the probe, the others with pow(), from the same line."""
        self.stack = None
        used = 0
        callee = self.probe
        while used < seconds * 1e9:
            started = time.thread_time_ns()
            function(callee)
            if callee is pow:
                used += time.thread_time_ns() - started
            callee = pow
        self.cases.append({"name": self.stack[0][0], "ns": used, "stack": self.stack})

    def print(self):
        print_truth(cases=self.cases)


def print_truth(**truth):
    truth["version"] = list(sys.version_info[:3])
    print(json.dumps({"python": truth}), flush=True)
