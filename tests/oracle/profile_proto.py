"""A reader of profile.proto (github.com/google/pprof/proto/profile.proto) that has nothing in common with profd's."""

import gzip
import pathlib
import typing


class Frame(typing.NamedTuple):
    function: str  # as the file has it: mangled
    file: str
    line: int


class Location(typing.NamedTuple):
    mapping: str  # path of the file, or "[vdso]" and the like
    address: int  # in that file
    frames: tuple  # of Frame, the innermost first


def varint(data: bytes, at: int) -> tuple:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data: bytes):
    """Pairs of a field's number and its value: a number or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def message(data: bytes) -> dict:
    """Of fields that occur once."""
    return dict(fields(data))


def lines_of(data: bytes) -> list:
    return [message(value) for number, value in fields(data) if number == 4]


def read_locations(path: pathlib.Path) -> list:
    strings, mappings, functions, locations = [], {}, {}, []
    for number, value in fields(gzip.decompress(path.read_bytes())):
        if number == 6:
            strings.append(value.decode())
        elif number == 3:
            mapping = message(value)
            mappings[mapping[1]] = mapping
        elif number == 5:
            function = message(value)
            functions[function[1]] = function
        elif number == 4:
            locations.append((message(value), lines_of(value)))

    def frame(line: dict) -> Frame:
        function = functions[line[1]]
        return Frame(strings[function.get(3, 0)], strings[function.get(4, 0)], line.get(2, 0))

    return [Location(strings[mappings[location[2]].get(5, 0)] if 2 in location else "", location.get(3, 0),
                     tuple(frame(line) for line in lines)) for location, lines in locations]
