#!/usr/bin/python3
"""Python functions that C functions call: each way has stacks of its own."""

import bisect
import functools
import re
import sys
import threading

from cases import BASE, EXPONENT, MODULUS, Cases


def by_key(callee):
    def key_of(item):
        callee(BASE, EXPONENT, MODULUS)
        return -item

    return sorted([1, 2], key=key_of)


def by_map(callee):
    def mapped(item):
        return callee(BASE, EXPONENT, MODULUS) + item

    return list(map(mapped, [1, 2]))


def by_init(callee):
    class Made:
        def __init__(self):
            self.value = callee(BASE, EXPONENT, MODULUS)

    return Made()


class Hot:
    """Since 3.13 its call is specialized: a shim frame lies between both, which no one shall see."""

    def __init__(self, callee):
        self.value = callee(BASE, EXPONENT, MODULUS)


def by_hot_init(callee):
    return [Hot(callee) for _ in range(4)]


def by_call(callee):
    class Callable:
        def __call__(self, item):
            return callee(BASE, EXPONENT, MODULUS)

    return list(filter(Callable(), [1]))


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)

    return wrapper


@decorated
def by_decorator(callee):
    return callee(BASE, EXPONENT, MODULUS)


@functools.lru_cache(maxsize=None)
def cached(callee, number):
    return callee(BASE, EXPONENT, MODULUS)


def by_cache(callee):
    cached.cache_clear()
    return cached(callee, 1)


def by_reduce(callee):
    def reduced(left, right):
        return callee(BASE, EXPONENT, MODULUS)

    return functools.reduce(reduced, [1, 2, 3])


def by_sub(callee):
    def replaced(match):
        callee(BASE, EXPONENT, MODULUS)
        return "y"

    return re.sub("x", replaced, "axbx")


def by_operator(callee):
    class Ordered:
        def __lt__(self, other):
            callee(BASE, EXPONENT, MODULUS)
            return False

    return bisect.insort([Ordered()], Ordered())


def by_property(callee):
    class Holder:
        @property
        def value(self):
            return callee(BASE, EXPONENT, MODULUS)

    return getattr(Holder(), "value")


def by_exec(callee):
    code = compile("def executed(callee):\n    return callee(3, e, m)\n\nexecuted(callee)\n", "<by_exec>", "exec")
    exec(code, {"callee": callee, "e": EXPONENT, "m": MODULUS})


def by_eval(callee):
    return eval("(lambda: callee(3, e, m))()", {"callee": callee, "e": EXPONENT, "m": MODULUS})


def by_except(callee):
    try:
        raise ValueError
    except ValueError:
        return callee(BASE, EXPONENT, MODULUS)
    finally:
        sys.exc_info()


def by_deletion(callee):
    class Deleted:
        def __del__(self):
            callee(BASE, EXPONENT, MODULUS)

    deleted = Deleted()
    del deleted


def by_nested_callbacks(callee):
    def inner(item):
        return callee(BASE, EXPONENT, MODULUS)

    def middle(item):
        return sorted([item], key=inner)

    return list(map(middle, [1]))


def main():
    cases = Cases()
    for function in (by_key, by_map, by_init, by_hot_init, by_call, by_decorator, by_cache, by_reduce, by_sub,
                     by_operator, by_property, by_exec, by_eval, by_except, by_deletion, by_nested_callbacks):
        cases.run(function)
    cases.print()


threading.stack_size()  # a module of C and Python, imported before the cases begin
main()
