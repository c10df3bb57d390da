"""What `-e off-cpu` costs a switch of threads, beside bpftrace and `perf sched record`, and how near its estimates come to
what a program measures itself (tests/workloads/waits.c)."""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from harness import Bench, bpf_statistics, cpu_seconds, family, interval, row

PIPE_ROUNDS = 500_000  # of `perf bench sched pipe`: two switches each
STORM_SECONDS = 15
SHARES_SECONDS = 30
PAIRS = 8
STALL_MS = 3000
# Time off the CPU of each thread, without stacks.
BPFTRACE_PROGRAM = """tracepoint:sched:sched_switch {
  if (args->prev_state != 0) { @start[args->prev_pid] = nsecs; }
  if (@start[args->next_pid] != 0) {
    @sum[args->next_pid] = sum(nsecs - @start[args->next_pid]);
    delete(@start[args->next_pid]);
  }
}"""


def programs() -> dict:
    shown = subprocess.run(["bpftool", "prog", "show", "--json"], capture_output=True, text=True, check=True).stdout
    return {program["id"]: program for program in json.loads(shown)}


def switch_program() -> dict:
    return next((program for program in programs().values() if program.get("name") == "profd_switch"), {})


class RunTime:
    """Of the BPF program that `find` returns, between two calls."""

    def __init__(self, find):
        self.find = find
        self.before = find()

    def passed(self) -> tuple:
        """Runs, and their time in seconds."""
        now = self.find()
        return tuple((now.get(key, 0) - self.before.get(key, 0)) / unit
                     for key, unit in (("run_cnt", 1), ("run_time_ns", 1e9)))

    def ns_a_run(self) -> float:
        runs, seconds = self.passed()
        return seconds * 1e9 / max(runs, 1)


class GatedPipe:
    """`perf bench sched pipe` as a child of a shell, on one CPU, that waits until it may begin: so its session is there
    from its first switch on."""

    def __init__(self, rounds: int):
        command = f"read line; exec perf bench sched pipe -l {rounds}"
        self.process = subprocess.Popen(["taskset", "-c", str(max(os.sched_getaffinity(0))), "sh", "-c", command],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self) -> float:
        output = self.process.communicate("\n")[0]
        return float(re.search(r"Total time: ([0-9.]+)", output)[1])


@contextlib.contextmanager
def session_of(bench: Bench, *target):
    """A session of blocks; its result is removed."""
    session = bench.profctl("start", "-e", "off-cpu", *target).strip()
    try:
        yield
    finally:
        out = bench.directory / "off-cpu"
        shutil.rmtree(out, ignore_errors=True)
        bench.profctl("stop", session, "-o", out)


@contextlib.contextmanager
def empty_program(bench: Bench):
    """An empty program at the same tracepoint, whose run time is that of the measurement itself: yields its id, or None
    where it is not built."""
    built = bench.profd_binary.parent / "tests/bpf/empty_switch.o"
    if not built.exists():
        yield None
        return
    before = set(programs())
    libbpf = ctypes.CDLL("libbpf.so.1")
    for function in (libbpf.bpf_object__open, libbpf.bpf_object__next_program, libbpf.bpf_program__attach):
        function.restype = ctypes.c_void_p
    loaded = ctypes.c_void_p(libbpf.bpf_object__open(str(built).encode()))
    assert loaded and libbpf.bpf_object__load(loaded) == 0, built
    link = ctypes.c_void_p(libbpf.bpf_program__attach(ctypes.c_void_p(libbpf.bpf_object__next_program(loaded, None))))
    assert link, built
    try:
        yield next(iter(set(programs()) - before))
    finally:
        libbpf.bpf_link__destroy(link)
        libbpf.bpf_object__close(loaded)


def ns_of_switches(bench: Bench, is_watched: bool) -> tuple:
    """Of profd's program and of an empty one, in nanoseconds a switch."""
    with bpf_statistics(), bench.profd():
        pipe = GatedPipe(PIPE_ROUNDS)
        other = bench.workload("waits", "pool", 600, 1)
        try:
            with session_of(bench, "-p", pipe.process.pid if is_watched else other.pid), empty_program(bench) as empty:
                ours = RunTime(switch_program)
                floor = RunTime(lambda: programs().get(empty, {}))
                pipe.seconds()
                return ours.ns_a_run(), floor.ns_a_run()
        finally:
            other.kill()
            other.communicate()


def base(bench: Bench) -> None:
    for is_watched, name, most in ((False, "no session wants", 30), (True, "a session watches", 100)):
        ours, floor = ns_of_switches(bench, is_watched)
        row(f"a switch of threads that {name}, net ns", f"{ours - floor:.0f} ({ours:.0f} - {floor:.0f})", "-", f"<= {most}")
    with bench.profd():
        with session_of(bench, "-p", os.getpid()):
            pass
        began = time.monotonic()
        while switch_program() and time.monotonic() - began < 30:
            time.sleep(0.1)
        row("s until no program is left after a session", f"{time.monotonic() - began:.1f}", "-", "<= 8")


def pipe_alone(_: Bench) -> float:
    return GatedPipe(PIPE_ROUNDS).seconds()


def pipe_with_profd(bench: Bench) -> float:
    with bench.profd():
        pipe = GatedPipe(PIPE_ROUNDS)
        with session_of(bench, "-p", pipe.process.pid):
            return pipe.seconds()


@contextlib.contextmanager
def beside(command: list):
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)  # until it has attached
    try:
        yield
    finally:
        recorder.terminate()
        recorder.wait()


def pipe_with_bpftrace(_: Bench) -> float:
    with beside(["bpftrace", "-e", BPFTRACE_PROGRAM]):
        return GatedPipe(PIPE_ROUNDS).seconds()


def pipe_with_perf(bench: Bench) -> float:
    with beside(["perf", "sched", "record", "-o", str(bench.directory / "sched.data")]):
        return GatedPipe(PIPE_ROUNDS).seconds()


def pipe(bench: Bench) -> None:
    measured = {"profd": pipe_with_profd, "perf sched record": pipe_with_perf}
    if shutil.which("bpftrace"):
        measured["bpftrace"] = pipe_with_bpftrace
    slowed = {name: [] for name in measured}
    for _ in range(bench.rounds):
        plain = pipe_alone(bench)
        times = {name: measure(bench) for name, measure in measured.items()}
        plain = (plain + pipe_alone(bench)) / 2
        for name, seconds in times.items():
            slowed[name].append(100 * (seconds / plain - 1))
    row(f"perf bench sched pipe slowed, {bench.rounds} rounds", interval(slowed["profd"]), interval(slowed["perf sched record"]),
        "<= 5 %")
    if "bpftrace" in slowed:
        row("  by bpftrace, without stacks", "-", interval(slowed["bpftrace"]))


def own_figures(output: str) -> dict:
    return json.loads(next(line for line in reversed(output.splitlines()) if line.startswith('{"functions"')))


def storm(bench: Bench) -> None:
    """As fast as the host switches; what it costs is given for 200,000 switches a second too."""
    with bpf_statistics(), bench.profd() as daemon:
        waits = bench.workload("waits", "--gated", "storm", STORM_SECONDS, PAIRS, stdin=subprocess.PIPE)
        waits.stdout.readline()
        with session_of(bench, "-p", waits.pid):
            ours, cpu = RunTime(switch_program), sum(map(cpu_seconds, family(daemon.pid)))
            walks = bench.status()["off_cpu"]["walks"]
            output = waits.communicate("\n")[0]
            in_kernel = ours.passed()[1]
            cpu = sum(map(cpu_seconds, family(daemon.pid))) - cpu
            walks = bench.status()["off_cpu"]["walks"] - walks
            difference = bench.status()["ledger"]["difference"]
    switches = own_figures(output)["functions"]["process"]["switches"] / STORM_SECONDS
    host = STORM_SECONDS * os.cpu_count()
    percent = 100 * (in_kernel + cpu) / host
    row(f"storm of {switches:,.0f} switches/s: % of the host", f"{percent:.2f}", "-")
    row("  in the kernel, and profd's own", f"{100 * in_kernel / host:.2f}, {100 * cpu / host:.2f}", "-")
    row("  at 200,000 switches/s", f"{percent * 200_000 / switches:.2f}", "-", "<= 2 %")
    row("  walks a second of each CPU", f"{walks / host:.0f}", "-", "<= 4500")
    row("  ledger's difference", str(difference), "-", "0")


def times_of(bench: Bench, profile: pathlib.Path) -> dict:
    """Nanoseconds by function, with what it calls, as Go's pprof shows them."""
    command = [str(bench.profd_binary.parent / "go-pprof"), "-symbolize=none", "-top", "-unit=ns", "-nodecount=10000",
               "-nodefraction=0", "-edgefraction=0", str(profile)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: float(value) for value, name in re.findall(r"([0-9.]+)ns +[0-9.]+% +(\S+)$", text, re.MULTILINE)}


def recorded_waits(bench: Bench, name: str, *arguments) -> tuple:
    """Of one command: the times by function in the profile, and its own figures."""
    profile = bench.directory / f"{name}.pb.gz"
    profile.unlink(missing_ok=True)
    output = bench.profctl("record", "-e", "off-cpu", "-o", profile, "--", bench.workloads / "waits", *arguments)
    return times_of(bench, profile), own_figures(output)


def shares(bench: Bench) -> None:
    """Sixty, thirty and ten percent of the waits, of very many."""
    functions = ("wait_six_tenths", "wait_three_tenths", "wait_one_tenth")
    with bench.profd():
        times, own = recorded_waits(bench, "shares", "shares", SHARES_SECONDS, PAIRS)
    rate = own["functions"]["process"]["switches"] / SHARES_SECONDS
    profiled = sum(times.get(function, 0) for function in functions)
    measured = sum(own["functions"][function]["ns"] for function in functions)
    for function in functions:
        ours = 100 * times.get(function, 0) / max(profiled, 1)
        clock = 100 * own["functions"][function]["ns"] / measured
        row(f"{function} at {rate:,.0f} switches/s, %", f"{ours:.2f} (clock: {clock:.2f})", "-", "within 2 % of it")


def stalls(bench: Bench) -> None:
    found = 0
    with bench.profd():
        for _ in range(bench.rounds):
            times, own = recorded_waits(bench, "stall", "stall", 1, STALL_MS)
            clock = own["functions"]["stall_among_short_waits"]["ns"]
            found += abs(times.get("stall_among_short_waits", 0) / clock - 1) < 0.01
    row(f"two stalls of {STALL_MS / 1000:.0f} s among short waits: found, with their stack", f"{found} of {bench.rounds}", "-",
        "all")


def off_cpu(bench: Bench) -> None:
    base(bench)
    pipe(bench)
    storm(bench)
    shares(bench)
    stalls(bench)
