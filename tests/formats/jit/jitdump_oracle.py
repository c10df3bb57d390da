#!/usr/bin/python3
"""An independent reader of jitdumps, as an oracle: one line for each LOAD, with its lines of source below.

    jitdump_oracle.py FILE

Little endian. DEBUG entries are 0x40 too high where most records' lowest is 0x40 to 0x50 behind their code.
"""

import struct
import sys


def records(data: bytes):
    at = struct.unpack_from("<I", data, 8)[0]
    while at + 16 <= len(data):
        kind, size, time = struct.unpack_from("<IIQ", data, at)
        if size < 16 or at + size > len(data):
            return
        yield at, kind, time, data[at:at + size]
        at += size


def entries(record: bytes, most: int):
    """Without the last one before what can't be an entry: its name has a NUL in it."""
    code, count = struct.unpack_from("<QQ", record, 16)
    at, file, found = 32, b"", []
    for _ in range(count):
        if at + 16 > len(record):
            break
        address, line, _ = struct.unpack_from("<QII", record, at)
        end = record.find(b"\0", at + 16)
        if end < 0:
            break
        if not -0x80 <= address - code <= most + 0x80:
            return found[:-1]
        file = file if record[at + 16:end] == b"\xff" else record[at + 16:end]
        found.append((address - code, line, file))
        at = end + 1
    return found


def main() -> None:
    data = open(sys.argv[1], "rb").read()
    all_records = list(records(data))
    lowest = [min((d for d, _, _ in entries(r, 1 << 28)), default=None) for _, kind, _, r in all_records if kind == 2]
    known = [d for d in lowest if d is not None]
    bias = 0x40 if 2 * sum(0x40 <= d <= 0x50 for d in known) > len(known) else 0
    debug, unwind = {}, None
    for at, kind, time, record in all_records:
        if kind == 2:
            debug[struct.unpack_from("<Q", record, 16)[0]] = record
        if kind == 4:
            data_bytes, header_bytes, _ = struct.unpack_from("<QQQ", record, 16)
            unwind = at if data_bytes != header_bytes else None
        if kind != 0:
            continue
        pid, _, _, address, size, _ = struct.unpack_from("<IIQQQQ", record, 16)
        name_end = record.index(b"\0", 56)
        code = at + name_end + 1 if name_end + 1 < len(record) else 0
        name = record[56:name_end].hex()
        print(f"{time} {pid} {address:x} {size} {code} {unwind or 0} {name}")
        unwind = None
        lines = {}
        for distance, line, file in entries(debug.pop(address, b"\0" * 32), size):
            offset = max(distance - bias, 0)
            if 0 < line < 1 << 31 and file and offset < size:
                lines[offset] = f"  +{offset} {line} {file.hex()}"
        for offset in sorted(lines):
            print(lines[offset])


main()
