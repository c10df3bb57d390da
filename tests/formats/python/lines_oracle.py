#!/usr/bin/python3
"""Line tables of real code objects, and the lines that this interpreter itself has for them.

A line for each code object: its first line, the number of 2-byte units of its bytecode, the table in hex, and the
ranges as START:LINE (0: no line), comma-separated. Before them, the minor version.
"""

import dis
import os
import sys
import types

MODULES = 30


def ranges_of(code):
    if hasattr(code, "co_lines"):
        return [(start // 2, line or 0) for start, end, line in code.co_lines() if end > start]
    return [(start // 2, line) for start, line in dis.findlinestarts(code)]


def print_code(code):
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    ranges = ",".join("%d:%d" % pair for pair in ranges_of(code))
    print(code.co_firstlineno, len(code.co_code) // 2, table.hex() or "-", ranges or "-")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            print_code(constant)


def sources():
    directory = os.path.dirname(os.__file__)
    names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
    for name in names[:: max(len(names) // MODULES, 1)]:
        with open(os.path.join(directory, name), "rb") as file:
            yield name, file.read()
    # Long gaps, long lines, and lines that go back.
    yield "gaps.py", b"x = 1\n" + b"\n" * 5000 + b"y = (\n" + b"\n" * 300 + b"x +\n1)\n" + b"\n" * 130 + b"z = 1\n"
    yield "wide.py", b"x = [" + b", ".join(b"f(%d)" % i for i in range(2000)) + b"]\n"
    yield "back.py", b"f(\n" + b",\n".join(b"g(%d)" % i for i in range(300)) + b")\n"
    yield "with.py", b"def f():\n  with a() as b, c():\n    try:\n      return 1\n    finally:\n      d()\n"


def main():
    print(sys.version_info[1])
    for name, source in sources():
        try:
            code = compile(source, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        print_code(code)


main()
