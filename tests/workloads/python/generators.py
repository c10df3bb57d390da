#!/usr/bin/python3
"""Generators, coroutines and comprehensions: the frames of those that run, and of no other."""

import asyncio
import contextlib

from cases import BASE, EXPONENT, MODULUS, Cases


def generator(callee):
    yield callee(BASE, EXPONENT, MODULUS)


def delegating(callee):
    yield from generator(callee)


def by_yield(callee):
    return sum(generator(callee))


def by_yield_from(callee):
    return list(delegating(callee))


def by_send(callee):
    def echo():
        got = yield
        while True:
            got = yield callee(BASE, EXPONENT, got)

    started = echo()
    next(started)
    started.send(MODULUS)
    started.close()


def by_throw(callee):
    def catching():
        try:
            yield
        except KeyError:
            yield callee(BASE, EXPONENT, MODULUS)

    started = catching()
    next(started)
    started.throw(KeyError())
    started.close()


def by_list(callee):
    return [callee(BASE, EXPONENT, MODULUS) for _ in range(2)]


def by_dict(callee):
    return {number: callee(BASE, EXPONENT, MODULUS) for number in range(2)}


def by_expression(callee):
    return max(callee(BASE, EXPONENT, MODULUS) for _ in range(2))


def by_context(callee):
    @contextlib.contextmanager
    def context():
        yield callee(BASE, EXPONENT, MODULUS)

    with context() as value:
        return value


async def awaited(callee):
    await asyncio.sleep(0)
    return callee(BASE, EXPONENT, MODULUS)


async def awaiting(callee):
    return await awaited(callee)


async def gathering(callee):
    await asyncio.gather(awaiting(callee), asyncio.sleep(0))


async def asynchronous(callee):
    async def values():
        yield callee(BASE, EXPONENT, MODULUS)

    async for value in values():
        return value


def by_await(callee):
    asyncio.run(awaiting(callee))


def by_gather(callee):
    asyncio.run(gathering(callee))


def by_async_generator(callee):
    asyncio.run(asynchronous(callee))


def main():
    cases = Cases()
    for function in (by_yield, by_yield_from, by_send, by_throw, by_list, by_dict, by_expression, by_context, by_await,
                     by_gather, by_async_generator):
        cases.run(function)
    cases.print()


main()
