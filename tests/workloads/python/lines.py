#!/usr/bin/python3
"""Calls whose line is hard to have: over several lines, behind many, before the line that comes first.

The line tables of all versions are in use: short and long entries, lines that go back, and instructions without a line.
"""

import contextlib

from cases import BASE, EXPONENT, MODULUS, Cases


def plain(callee):
    return callee(BASE, EXPONENT, MODULUS)


def over_lines(callee):
    value = 1
    value += callee(
        BASE,
        EXPONENT,
        MODULUS,
    )
    return value


def second_argument(callee):
    return max(
        1,
        callee(
            BASE,
            EXPONENT, MODULUS),
        2,
    )


def in_loop(callee):
    total = 0
    for number in (
        1,
        2,
    ):
        total += number
        if number == 2:
            total += callee(BASE, EXPONENT, MODULUS)
    return total


def in_condition(callee):
    if (1 > 2
            or callee(BASE, EXPONENT, MODULUS) < 0):
        return 1
    return 2


def in_loop_header(callee):
    done = False
    while not done and \
            callee(BASE, EXPONENT, MODULUS):
        done = True
    return done


def behind_many_lines(callee):
    first = """
    a text








































































































































    of 150 lines
    """
    return len(first) + callee(BASE, EXPONENT, MODULUS)


def in_finally(callee):
    try:
        pass
    finally:
        callee(BASE, EXPONENT, MODULUS)


def in_handler(callee):
    try:
        {}["absent"]
    except KeyError:
        callee(BASE, EXPONENT, MODULUS)


@contextlib.contextmanager
def closing(callee):
    yield
    callee(BASE, EXPONENT, MODULUS)


def at_end_of_with(callee):
    with closing(callee):
        pass


def in_lambda(callee):
    function = (
        lambda:
        callee(BASE, EXPONENT, MODULUS)
    )
    return function()


def in_comprehension(callee):
    return [
        callee(BASE, EXPONENT, MODULUS)
        for _ in range(2)
        if True
    ]


def in_default(callee):
    def function(
        value=callee(BASE, EXPONENT, MODULUS),
    ):
        return value

    return function


def in_class_body(callee):
    class Body:
        first = 1
        value = callee(BASE, EXPONENT, MODULUS)

    return Body


def in_chain(callee):
    class Chain:
        def then(self, value):
            return self

    return (Chain()
            .then(1)
            .then(callee(BASE, EXPONENT, MODULUS))
            .then(3))


def long_function(count):
    """Bytecode and lines of thousands of units: entries that span more than one byte."""
    lines = ["def long_one(callee):", "    x = 0"]
    lines += ["    x = x + %d * (x - 1)" % i for i in range(count)]
    lines += [""] * 300 + ["    return callee(3, EXPONENT, MODULUS)"]
    names = {"EXPONENT": EXPONENT, "MODULUS": MODULUS}
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return names["long_one"]


def one_line_of_many_units(count):
    """A line whose entries are split: a unit count above what one holds."""
    text = "def wide_one(callee):\n    return [" + ", ".join("int()" for _ in range(count))
    text += "].count(\n        callee(3, EXPONENT, MODULUS))"
    names = {"EXPONENT": EXPONENT, "MODULUS": MODULUS}
    exec(compile(text, __file__, "exec"), names)
    return names["wide_one"]


def main():
    cases = Cases()
    for function in (plain, over_lines, second_argument, in_loop, in_condition, in_loop_header, behind_many_lines,
                     in_finally, in_handler, at_end_of_with, in_lambda, in_comprehension, in_default, in_class_body,
                     in_chain, long_function(430), one_line_of_many_units(300)):
        cases.run(function)
    cases.print()


main()
