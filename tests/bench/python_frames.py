"""Python functions in profiles: what a tick costs with 46 Python frames, what the program loses, what 10,000 functions
take of memory, and how many stacks are fully named; beside py-spy, where pip can get it, and OpenTelemetry's profiler,
where OTEL_PROFILER names its program."""

import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

from harness import STUDENT_95, Bench, bpf_statistics, cpu_seconds, interval, row, sampler_program

PYTHON = os.environ.get("PROFD_TEST_PYTHON", "/usr/bin/python3").split()
WORKLOADS = pathlib.Path(__file__).resolve().parent.parent / "workloads" / "python"
PY_SPY = "0.4.3"
FRAMES = 46
NATIVE_FRAMES = 12  # about as many as an interpreter has below one loop
SECONDS = 10

# So many frames: `<module>`, and functions each of which calls the next; the last one is busy.
CHAIN = """
import sys, time
count, seconds = int(sys.argv[1]), float(sys.argv[2])
def last(end):
    total = 0
    while time.monotonic() < end:
        for i in range(1000):
            total += i
names = {"function_0": last}
if count == 1:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
for i in range(1, count - 1):
    source = "def function_%d(end):\\n    return function_%d(end)\\n" % (i, i - 1)
    exec(compile(source, "/srv/app/module_%d.py" % (i // 8), "exec"), names)
names["function_%d" % max(count - 2, 0)](time.monotonic() + seconds)
"""

# What a service does: JSON, regular expressions, sorting with a key, objects, generators, hashes. Prints its seconds.
WORK = """
import hashlib, json, re, sys, time
class Item:
    def __init__(self, number):
        self.number, self.name = number, "item-%d" % number
    def key(self):
        return self.number * 7919 % 1009
def pairs(items):
    for item in items:
        yield item.name, item.number
def round_of_work(size):
    items = sorted((Item(i) for i in range(size)), key=Item.key)
    text = json.dumps(dict(pairs(items)))
    found = sum(int(match) for match in re.findall(r"item-(\\d+)", text))
    return hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest(), found
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
started = time.process_time()
for _ in range(int(sys.argv[1])):
    round_of_work(2000)
    fibonacci(18)
print(time.process_time() - started)
"""


def mean_and_half(values: list) -> str:
    half = STUDENT_95[min(len(values) - 2, len(STUDENT_95) - 1)] * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):+.2f} ± {half:.2f}"


@contextlib.contextmanager
def busy(commands: list):
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def chain(frames: int) -> list:
    return [*PYTHON, "-B", "-c", CHAIN, str(frames), "600"]


def time_of_tick(bench: Bench, command: list, frequency: int) -> float:
    """Nanoseconds, in the mean of all ticks: the load leaves no CPU idle."""
    with busy([command] * os.cpu_count()):
        session = bench.profctl("start", "-a", "-F", frequency).strip()
        time.sleep(2)  # until the tables are there, and each function is announced
        before = sampler_program()
        time.sleep(SECONDS)
        after = sampler_program()
        bench.profctl("stop", session, "-o", bench.directory / f"python-{time.monotonic_ns()}")
    runs = after["run_cnt"] - before.get("run_cnt", 0)
    return (after["run_time_ns"] - before.get("run_time_ns", 0)) / max(runs, 1)


def ticks(bench: Bench) -> None:
    native = [str(bench.workloads / "depth"), "600", str(NATIVE_FRAMES)]
    rounds = max(bench.rounds // 4, 3)
    with bpf_statistics(), bench.profd():
        for frequency, limit in ((999, 6), (99, 11)):
            one, many, absolute = [], [], []
            for _ in range(rounds):
                none, few, all_frames = (time_of_tick(bench, command, frequency) / 1000
                                         for command in (native, chain(1), chain(FRAMES)))
                one.append(few - none)
                many.append(all_frames - none)
                absolute.append(none)
            row(f"in the kernel, us a tick, {NATIVE_FRAMES} native frames, {frequency} Hz",
                f"{statistics.mean(absolute):.2f}", "-")
            row("  and more for 1 Python frame", mean_and_half(one), "-")
            row(f"  and more for {FRAMES} Python frames", mean_and_half(many), "-", f"<= {limit}")


def py_spy(bench: Bench) -> str:
    """The program of the wheel, in a directory of the bench's own; "" where it can't be had."""
    if found := shutil.which("py-spy"):
        return found
    place = bench.directory / "py-spy"
    for python in (sys.executable, "python3"):
        got = subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--target", str(place),
                              f"py-spy=={PY_SPY}"], capture_output=True, check=False)
        program = place / "bin" / "py-spy"
        if got.returncode == 0 and program.exists():
            return str(program)
    return ""


@contextlib.contextmanager
def py_spy_recording(bench: Bench, program: str, pid: int):
    output = bench.directory / "py-spy.txt"
    command = [program, "record", "-r", "100", "-n", "-f", "raw", "-o", str(output), "-d", "600", "-p", str(pid)]
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield recorder
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()


def seconds_of_work(recorded_by) -> float:
    process = subprocess.Popen([*PYTHON, "-B", "-c", WORK, "150"], stdout=subprocess.PIPE, text=True)
    with recorded_by(process.pid):
        return float(process.communicate()[0])


def slow_down(bench: Bench) -> None:
    program = py_spy(bench)
    ours, theirs = [], []
    for _ in range(bench.rounds):
        plain = seconds_of_work(lambda pid: contextlib.nullcontext())
        with bench.session(99, {}):
            with_profd = seconds_of_work(lambda pid: contextlib.nullcontext())
        if program:
            theirs.append(seconds_of_work(lambda pid: py_spy_recording(bench, program, pid)))
        after = seconds_of_work(lambda pid: contextlib.nullcontext())
        ours.append(100 * (2 * with_profd / (plain + after) - 1))
        if program:
            theirs[-1] = 100 * (2 * theirs[-1] / (plain + after) - 1)
    row(f"a Python program's CPU time, 99 Hz, {bench.rounds} rounds; beside py-spy", interval(ours),
        interval(theirs) if theirs else "py-spy: not to be had", "<= 0.3 %")


def named(bench: Bench) -> None:
    """By session.json, of all processes that had Python frames; and what profd itself used."""
    result = {}
    with bench.session(99, result):
        for _ in range(5):
            seconds_of_work(lambda pid: contextlib.nullcontext())
    parts = [profile["interpreted"] for profile in result["summary"]["profiles"] if profile.get("interpreted")]
    samples = sum(part["samples"] for part in parts)
    share = 100 * sum(part["named_samples"] for part in parts) / max(samples, 1)
    row(f"stacks with Python frames that are fully named, of {samples}", f"{share:.2f} %", "-", ">= 99.9 %")
    row("  CPU of profd, % of one", f"{100 * result['cpu'] / result['seconds']:.2f}", "-")
    if program := py_spy(bench):
        with busy([[*PYTHON, "-B", "-c", WORK, "100000"]]) as processes:
            time.sleep(0.5)
            with py_spy_recording(bench, program, processes[0].pid) as recorder:
                before, began = cpu_seconds(recorder.pid), time.monotonic()
                time.sleep(SECONDS)
                used = (cpu_seconds(recorder.pid) - before) / (time.monotonic() - began)
        row("  CPU of py-spy for one process, % of one", "-", f"{100 * used:.2f}")


def memory(bench: Bench) -> None:
    """Of the daemon's own figure, an upper bound. The announcements of one process come at 256 a second."""
    count = 10_000
    with bench.profd(), busy([[*PYTHON, "-B", str(WORKLOADS / "many_codes.py"), str(count), "600"]]) as processes:
        session = bench.profctl("start", "-F", 999, "--pid", processes[0].pid).strip()
        codes = {"codes": 0, "bytes": 0}
        end = time.monotonic() + 180
        while codes["codes"] < 0.99 * count and time.monotonic() < end:
            time.sleep(2)
            codes = bench.status()["interpreters"]
        bench.profctl("stop", session, "-o", bench.directory / "many-codes")
    row(f"memory of {codes['codes']:,} code objects, MB", f"{codes['bytes'] / 1e6:.2f}", "-", "<= 4 for 10,000")


def open_telemetry(bench: Bench) -> None:
    """Its own CPU beside that of profd, for the same program. What it names, its backend has to show."""
    program = os.environ.get("OTEL_PROFILER", "")
    if not program:
        row("OpenTelemetry's profiler", "-", "OTEL_PROFILER is not set")
        return
    agent = subprocess.Popen([program, "-collection-agent=127.0.0.1:1", "-disable-tls"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        time.sleep(5)
        before, began = cpu_seconds(agent.pid), time.monotonic()
        for _ in range(5):
            seconds_of_work(lambda pid: contextlib.nullcontext())
        used = (cpu_seconds(agent.pid) - before) / (time.monotonic() - began)
        row("  CPU of OpenTelemetry's profiler, % of one", "-", f"{100 * used:.2f}")
    finally:
        agent.terminate()
        agent.wait()


def python_frames(bench: Bench) -> None:
    version = subprocess.run([*PYTHON, "--version"], capture_output=True, text=True, check=True).stdout
    row(version.strip(), "profd", "py-spy")
    ticks(bench)
    slow_down(bench)
    named(bench)
    memory(bench)
    open_telemetry(bench)
