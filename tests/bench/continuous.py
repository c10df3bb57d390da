"""Continuous mode: what windows cost all the time, beside perf that switches its output; and what they take on the
disk."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from harness import Bench, cpu_seconds, family, row, rss_bytes

FREQUENCY = 19
WINDOW = 60
MANY = 5000
PROCESSES = 100


def family_cpu(pid: int) -> float:
    return sum(cpu_seconds(member) for member in family(pid))


@contextlib.contextmanager
def continuous(bench: Bench, window: int = WINDOW):
    config = bench.directory / "continuous.toml"
    config.write_text(f'[continuous]\nenabled = true\nwindow = "{window}s"\nfrequency = {FREQUENCY}\n')
    with bench.profd("--config", str(config)) as daemon:
        yield daemon


@contextlib.contextmanager
def switching_perf(bench: Bench):
    directory = bench.directory / "switched"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    recorder = subprocess.Popen(["perf", "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", str(FREQUENCY),
                                 f"--switch-output={WINDOW}s", "-o", str(directory / "perf.data")],
                                stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield recorder, directory
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()


def windows(bench: Bench) -> list:
    return sorted((bench.directory / "state" / "windows").glob("2*Z*"))


def wait_for_window(bench: Bench) -> pathlib.Path:
    """The next one that is written."""
    before = len(windows(bench))
    while len(windows(bench)) == before:
        time.sleep(0.2)
    return windows(bench)[-1]


def bpf_map_bytes() -> int:
    maps = json.loads(subprocess.run(["bpftool", "map", "show", "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    ours = [entry for entry in maps if entry.get("name", "").startswith("profd_")]
    return sum(int(entry.get("bytes_memlock", 0)) for entry in ours)


def a_minute(bench: Bench, daemon: subprocess.Popen) -> float:
    """CPU seconds of profd and its parsers over a whole window and its writing."""
    wait_for_window(bench)
    before = family_cpu(daemon.pid)
    wait_for_window(bench)
    return family_cpu(daemon.pid) - before


def perf_minute(bench: Bench) -> float:
    with switching_perf(bench) as (recorder, _):
        time.sleep(WINDOW / 4)
        before = cpu_seconds(recorder.pid)
        time.sleep(WINDOW)
        return cpu_seconds(recorder.pid) - before


@contextlib.contextmanager
def running(bench: Bench, commands: list):
    """Each with the processes that it forks, which outlive it and hold its output open."""
    processes = []
    try:
        processes.extend(bench.workload(*command, start_new_session=True) for command in commands)
        yield processes
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def busy() -> list:
    return [("depth", 20 * WINDOW, 25)] * os.cpu_count()


def costs(bench: Bench) -> None:
    with continuous(bench) as daemon:
        wait_for_window(bench)  # warm
        idle = a_minute(bench, daemon)
        with running(bench, busy()):
            wait_for_window(bench)  # whose programs need their images
            loaded = a_minute(bench, daemon)
        with running(bench, [("storm", 20 * WINDOW, MANY)]) as sleepers:
            sleepers[0].stdout.readline()
            many = a_minute(bench, daemon)
        resident, maps = rss_bytes(daemon.pid), bpf_map_bytes()
        status = bench.status()["continuous"]
    theirs = perf_minute(bench)
    with running(bench, busy()):
        theirs_loaded = perf_minute(bench)
    row("windows, idle host, CPU seconds a minute", f"{idle:.4f}", f"{theirs:.4f}", "<= 0.02")
    row("  two busy CPUs", f"{loaded:.4f}", f"{theirs_loaded:.4f}", "<= 0.05")
    row(f"  idle with {MANY} processes", f"{many:.4f}", "-", "no more")
    row("  resident memory, MB", f"{resident / 1e6:.1f}", "-", "<= 40")
    row("  BPF maps, MB", f"{maps / 1e6:.1f}", "-", "<= 30")
    row("  windows that failed", str(sum(status["failed"].values())), "-", "0")


def hundred() -> list:
    kinds = (("shares", 20 * WINDOW), ("depth", 20 * WINDOW, 25), ("family", 20 * WINDOW), ("reader", 20 * WINDOW))
    return [kind for kind in kinds for _ in range(PROCESSES // len(kinds))]


def disk(bench: Bench) -> None:
    with continuous(bench), running(bench, hundred()):
        wait_for_window(bench)
        window = wait_for_window(bench).stat()
    with switching_perf(bench) as (_, directory), running(bench, hundred()):
        while len(list(directory.glob("perf.data.2*"))) < 2:
            time.sleep(1)
        newest = sorted(directory.glob("perf.data.2*"))[1].stat().st_size
    row(f"a window of {PROCESSES} processes, KB", f"{window.st_size / 1e3:.0f}", f"{newest / 1e3:.0f}", "<= 25")
    row("  two days of such windows, MiB", f"{window.st_blocks * 512 * 2880 / 2**20:.0f}", "-", "<= 512")


def continuous_mode(bench: Bench) -> None:
    if shutil.which("perf") is None:
        sys.exit("perf is not there: apt-get install linux-perf")
    costs(bench)
    disk(bench)
