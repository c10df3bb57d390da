"""Names, code and lines of a large program's JIT code: profd's readers beside `perf inject --jit`."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from harness import Bench, row

FUNCTIONS = 137_490  # what node compiles of a program of 45,000 functions: 102 MB of code

# Writes a jitdump of that many functions, maps it as runtimes do, and is busy while it is sampled.
RUNTIME = """
import mmap, os, struct, sys, time
functions, directory = int(sys.argv[1]), sys.argv[2]
pid = os.getpid()
with open(f"{directory}/jit-{pid}.dump", "wb+") as file:
    file.write(struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, pid, 0, 0))
    address = 0x7f0000000000
    for i in range(functions):
        name = f"JS:~function{i} /srv/app/module.js:{i % 9000}:11".encode() + b"\\0"
        size = 64 + i * 7919 % 1376
        file.write(struct.pack("<IIQIIQQQQ", 0, 56 + len(name) + size, time.monotonic_ns(), pid, pid, address, address,
                               size, i) + name + b"\\x90" * size)
        address += (size + 63) // 64 * 64
    file.flush()
    marker = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        pass
"""


def perf_inject_seconds(directory: pathlib.Path, functions: int) -> float:
    """Wall time of one run: it writes five files for each function."""
    recorded, injected = directory / "perf.data", directory / "jit.data"
    subprocess.run(["perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "999", "-o", recorded, "--",
                    sys.executable, "-c", RUNTIME, str(functions), directory], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    started = time.monotonic()
    subprocess.run(["perf", "inject", "--jit", "-i", recorded, "-o", injected], check=True,
                   env=os.environ | {"HOME": str(directory)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    made = sum(1 for _ in directory.glob("jitted-*.so"))
    if made < functions:
        sys.exit(f"perf inject made {made} files of {functions} functions")
    return seconds


def own_seconds(bench: Bench) -> dict:
    output = subprocess.run([bench.profd_binary.parent / "jit_code_bench", "--benchmark_format=json"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    units = {"ns": 1e-9, "ms": 1e-3}
    return {run["name"]: run["real_time"] * units[run["time_unit"]] for run in json.loads(output)["benchmarks"]}


def jit_code(bench: Bench) -> None:
    ours = own_seconds(bench)
    directory = bench.directory / "jit-code"
    directory.mkdir()
    theirs = perf_inject_seconds(directory, FUNCTIONS)
    row(f"{FUNCTIONS:,} JIT functions: read, s", f"{ours['BM_ParseJitDump']:.3f}", "-", "<= 0.15")
    row("  read and indexed by address and time, s", f"{ours['BM_ParseAndIndexJitDump']:.3f}", "-")
    row("  what lay at an address at a time, in reused code, us", f"{ours['BM_FindInReusedCode'] * 1e6:.2f}", "-")
    row("  an image of all, s", f"{ours['BM_EncodeJitImage/1']:.3f}", "-", "<= 0.5")
    both = ours["BM_ParseAndIndexJitDump"] + ours["BM_EncodeJitImage/100"]
    row("  read, and an image of those hit (1 %), s", f"{both:.3f}", f"{theirs:.1f}, of all", "100 times faster")
    shutil.rmtree(directory)  # of 700,000 files: last, since that takes minutes on a slow disk
