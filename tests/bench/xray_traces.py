"""profctl convert beside llvm-xray on traces that the bench makes: records a second, memory, and the same stacks."""

import os
import pathlib
import shutil
import subprocess
import time

from harness import Bench, row

MEGABYTES = 128
DEFAULT_BUFFER = 16 << 10
LARGE_BUFFER = 16 << 20
# Of the LLVMs of Debian 12, newest first.
LLVM_XRAYS = ("llvm-xray-19", "llvm-xray-16", "llvm-xray-15", "llvm-xray")


def peak_bytes(pid: int) -> int:
    """The peak of the process itself. wait4 includes the memory of the process that forked it."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def timed(command: list) -> tuple:
    """CPU seconds, which other programs disturb less than time, and peak resident bytes. All here have one thread."""
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(list(map(str, command)), stdout=null, stderr=null)
    peak = 0
    ended = 0
    while ended == 0:
        peak = max(peak, peak_bytes(process.pid))
        time.sleep(0.002)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (usage.ru_utime + usage.ru_stime if process.returncode == 0 else None), peak


def best_of(rounds: int, command: list) -> tuple:
    runs = [timed(command) for _ in range(rounds)]
    seconds = [run[0] for run in runs if run[0] is not None]
    return (min(seconds) if seconds else None), max(run[1] for run in runs)


def rate(records: int, seconds) -> str:
    return f"{records / seconds / 1e6:.2f} M/s" if seconds else "fails"


def compare(name: str, records: int, ours: tuple, theirs: tuple) -> None:
    ratio = f"{theirs[0] / ours[0]:.0f}x" if ours[0] and theirs[0] else "-"
    row(f"{name}, records", f"{rate(records, ours[0])} ({ratio})", rate(records, theirs[0]), ">= 30x")
    row(f"{name}, resident MB", f"{ours[1] / 1e6:.1f}", f"{theirs[1] / 1e6:.1f}", "<= 64")


def folded(text: str) -> dict:
    """By stack; llvm-xray ends its lines' stacks with another semicolon."""
    lines = (line.rpartition(" ") for line in text.splitlines())
    return {stack.rstrip(";").replace("#", "").replace("xray:", ""): int(count) for stack, _, count in lines}


def same_stacks(bench: Bench, llvm_xray: str, trace: pathlib.Path) -> str:
    ours = subprocess.run([bench.profctl_binary, "convert", trace, "--format", "folded", "--calls", "-o", "-"],
                          capture_output=True, text=True, check=True).stdout
    theirs = subprocess.run([llvm_xray, "stack", "-k", "-all-stacks", "-stack-format=flame", "-aggregate-threads",
                             "-aggregation-type=count", trace], capture_output=True, text=True, check=False).stdout
    ours, theirs = folded(ours), folded(theirs)
    same = sum(ours.get(stack) == count for stack, count in theirs.items())
    return f"{same} of {len(ours)}"


def xray_traces(bench: Bench) -> None:
    llvm_xray = next(name for name in LLVM_XRAYS if shutil.which(name))
    row("XRay traces", "profctl convert", llvm_xray)
    for buffer_bytes in (DEFAULT_BUFFER, LARGE_BUFFER):
        trace = bench.directory / f"xray-log.{buffer_bytes}"
        maker = bench.profctl_binary.parent / "xray_trace_maker"
        subprocess.run([maker, trace, str(MEGABYTES), str(buffer_bytes)], check=True)
        records = trace.stat().st_size // 8
        size = f"{trace.stat().st_size / 1e6:.0f} MB in buffers of {buffer_bytes >> 10} KiB"
        convert = [bench.profctl_binary, "convert", trace, "-o"]
        profile = best_of(3, [*convert, bench.directory / "out.prof"])
        compare(f"{size}: graph", records, profile, best_of(1, [llvm_xray, "graph", trace, "-o", os.devnull]))
        compare(f"{size}: stack", records, profile,
                best_of(1, [llvm_xray, "stack", "-all-stacks", "-stack-format=flame", "-aggregation-type=time",
                            "-aggregate-threads", trace]))
        compare(f"{size}: timeline", records, best_of(2, [*convert, os.devnull, "--format", "trace"]),
                best_of(1, [llvm_xray, "convert", "-output-format=trace_event", trace, "-o", os.devnull]))
        # It sorts buffers wrongly from 17 a thread on.
        row(f"{size}: stacks with llvm-xray's number of calls", same_stacks(bench, llvm_xray, trace), "-",
            "all" if buffer_bytes == LARGE_BUFFER else "it errs")
        trace.unlink()
