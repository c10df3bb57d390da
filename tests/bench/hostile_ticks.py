"""What a tick costs while hostile processes have hundreds of files at long paths in their stacks, and change them all
the time; beside as many ordinary processes with stacks as deep. And while they have the memory of an interpreter that
costs most to walk: frames on pages of their own, code that is new at each tick, texts of a mebibyte."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from harness import Bench, bpf_statistics, row, sampler_program

PROCESSES = 5
FRAMES = 48  # of each stack of mapping_flood
SECONDS = 20
USER = 12345
# Of tests/hostile/forged_python.c.
FORGED = ("honest", "far", "long", "cycle", "storm", "length", "absent_names", "many_segments", "protnone",
          "userfaultfd")


@contextlib.contextmanager
def hostile(bench: Bench):
    """In a directory that an unprivileged user reaches; the build and the bench's own may be root's alone."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="profd_flood_"))
    processes = []
    try:
        directory.chmod(0o755)
        program = pathlib.Path(shutil.copy(bench.profd_binary.parent / "mapping_flood", directory))
        place = directory / "files"
        place.mkdir()
        os.chown(place, USER, USER)
        for i in range(PROCESSES):
            processes.append(subprocess.Popen([program, place / str(i), "600"], stdout=subprocess.PIPE, user=USER,
                                              group=USER, extra_groups=[]))
        for process in processes:
            process.stdout.readline()  # "running": its files are there
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        shutil.rmtree(directory)


@contextlib.contextmanager
def ordinary(bench: Bench):
    processes = [bench.workload("depth", 600, FRAMES) for _ in range(PROCESSES)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def time_of_tick(bench: Bench, load, frequency: int) -> float:
    """Nanoseconds, in the mean of all ticks. The load leaves no CPU idle, so that nearly all ticks are its own."""
    with bpf_statistics(), load(bench), bench.profd():
        session = bench.profctl("start", "-a", "-F", frequency).strip()
        time.sleep(2)  # until the tables of ordinary programs are there, and the first credit is spent
        before = sampler_program()
        time.sleep(SECONDS)
        after = sampler_program()
        bench.profctl("stop", session, "-o", bench.directory / f"ticks-{load.__name__}-{frequency}")
    runs = after["run_cnt"] - before.get("run_cnt", 0)
    return (after["run_time_ns"] - before.get("run_time_ns", 0)) / max(runs, 1)


def hostile_ticks(bench: Bench) -> None:
    """At the frequency of continuous mode and at that of sessions: more files have changed since a rarer tick."""
    row(f"in the kernel, us a tick, {PROCESSES} processes that change files", "theirs", "ordinary ones")
    for frequency in (19, 99):
        theirs, others = (time_of_tick(bench, load, frequency) / 1000 for load in (hostile, ordinary))
        row(f"  {frequency} Hz", f"{theirs:.1f}", f"{others:.1f}", "<= 60")


def forged(mode: str):
    """As many programs of this mode as there are CPUs, of an unprivileged user."""
    @contextlib.contextmanager
    def forged_mode(bench: Bench):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="profd_forged_"))
        processes = []
        try:
            directory.chmod(0o755)
            program = pathlib.Path(shutil.copy(bench.profd_binary.parent / "forged_python", directory))
            for _ in range(os.cpu_count()):
                processes.append(subprocess.Popen([program, mode, "600"], stdout=subprocess.PIPE, user=USER, group=USER,
                                                  extra_groups=[]))
            for process in processes:
                process.stdout.readline()
            yield
        finally:
            for process in processes:
                process.kill()
                process.communicate()
            shutil.rmtree(directory)

    forged_mode.__name__ = f"forged-{mode}"
    return forged_mode


def forged_ticks(bench: Bench) -> None:
    """Each mode makes all its ticks alike, so that the mean is about what one tick can cost."""
    row("in the kernel, us a tick, programs that forge an interpreter", "theirs", "-")
    for mode in FORGED:
        for frequency in (99, 999):
            cost = time_of_tick(bench, forged(mode), frequency) / 1000
            row(f"  {mode}, {frequency} Hz", f"{cost:.1f}", "-", "<= 60")
