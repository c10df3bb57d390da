"""What the benches share: profd and perf as context managers, figures of processes, rows of the table."""

import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

STUDENT_95 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11,
              2.10, 2.09]


class Bench:
    def __init__(self, build: pathlib.Path, rounds: int):
        self.profd_binary = build / "profd"
        self.profctl_binary = build / "profctl"
        self.workloads = build / "tests" / "workloads"
        self.rounds = rounds
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="profd_bench_"))
        self.environment = dict(os.environ, PROFD_SOCKET=str(self.directory / "run" / "profd.sock"))

    def workload(self, *args, **options) -> subprocess.Popen:
        command = [str(self.workloads / args[0]), *map(str, args[1:])]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)

    def profctl(self, *args) -> str:
        command = [str(self.profctl_binary), *map(str, args)]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout

    def status(self) -> dict:
        return json.loads(self.profctl("status", "--json"))

    def start_profd(self, *arguments, state: str = "state") -> subprocess.Popen:
        log = open(self.directory / "log", "a", encoding="utf-8")
        daemon = subprocess.Popen([str(self.profd_binary), "--socket", self.environment["PROFD_SOCKET"], "--state-dir",
                                   str(self.directory / state), *arguments], stderr=log)
        while subprocess.run([str(self.profctl_binary), "status"], env=self.environment, capture_output=True,
                             check=False).returncode != 0:
            if daemon.poll() is not None:
                sys.exit((self.directory / "log").read_text())
            time.sleep(0.005)
        return daemon

    @contextlib.contextmanager
    def profd(self, *arguments, state: str = "state"):
        daemon = self.start_profd(*arguments, state=state)
        try:
            yield daemon
        finally:
            daemon.terminate()
            daemon.wait()

    @contextlib.contextmanager
    def session(self, frequency: int, result: dict):
        """A whole-host session; `result` gets its summary, and the CPU time that profd used meanwhile."""
        with self.profd() as daemon:
            before = cpu_seconds(daemon.pid)
            started = time.monotonic()
            session = self.profctl("start", "-a", "-F", frequency).strip()
            try:
                yield daemon
            finally:
                result["seconds"] = time.monotonic() - started
                result["cpu"] = cpu_seconds(daemon.pid) - before
                result["rss"] = rss_bytes(daemon.pid)
                out = self.directory / "out"
                shutil.rmtree(out, ignore_errors=True)
                self.profctl("stop", session, "-o", out)
                result["cpu_with_stop"] = cpu_seconds(daemon.pid) - before
                result["summary"] = json.loads((out / "session.json").read_text())
                result["ledger"] = result["summary"]["ledger"]

    @contextlib.contextmanager
    def perf(self, frequency: int, result: dict):
        """perf record -a -g; `result` gets its samples, losses and own CPU time."""
        data = self.directory / "perf.data"
        recorder = subprocess.Popen(["perf", "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", str(frequency), "-o",
                                     str(data)], stderr=subprocess.DEVNULL)
        time.sleep(0.7)  # until it has attached
        before = cpu_seconds(recorder.pid)
        started = time.monotonic()
        try:
            yield recorder
        finally:
            result["seconds"] = time.monotonic() - started
            result["cpu"] = cpu_seconds(recorder.pid) - before
            result["rss"] = rss_bytes(recorder.pid)
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
            report = subprocess.run(["perf", "report", "--stats", "-i", str(data)], capture_output=True, text=True,
                                    check=False).stdout
            result["samples"] = count_of(report, "SAMPLE events:")
            result["lost"] = count_of(report, "LOST_SAMPLES events:") or count_of(report, "LOST events:")


def count_of(report: str, label: str) -> int:
    for line in report.splitlines():
        if label in line:
            return int(line.split(label)[1].split()[0])
    return 0


def cpu_seconds(pid: int) -> float:
    """Of all threads, by the scheduler's clock: /proc/PID/stat counts in steps of 10 ms."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def family(pid: int) -> list:
    """The daemon and its parsers."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [pid] + [int(child) for thread in threads for child in thread.read_text().split()]


def rss_bytes(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def interval(values: list) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:+.2f} %"
    half = STUDENT_95[min(len(values) - 2, len(STUDENT_95) - 1)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:+.2f} % ± {half:.2f}"


def row(name: str, profd: str, perf: str, floor: str = "") -> None:
    print(f"{name:<58} {profd:>24} {perf:>24}  {floor}", flush=True)


@contextlib.contextmanager
def bpf_statistics():
    switch = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


def sampler_program() -> dict:
    programs = json.loads(subprocess.run(["bpftool", "prog", "show", "--json"], capture_output=True, text=True,
                                         check=True).stdout)
    return next(p for p in programs if p.get("name") == "profd_tick")
