"""A compile job: hundreds of short-lived compilers, every tick of which is to be delivered, complete, and nearly free."""

import collections
import json
import os
import subprocess
import time

from harness import Bench, cpu_seconds, family, interval, row

FILES = 60
SOURCE = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
int f{number}(const std::vector<std::string>& words) {{
  std::map<std::string, int> counts;
  for (const auto& word : words) ++counts[word + "{number}"];
  return static_cast<int>(counts.size());
}}
"""
COMPILERS = {"cc1plus", "as", "g++", "make", "sh", "collect2", "ld"}


def write_project(bench: Bench) -> None:
    project = bench.directory / "project"
    project.mkdir(exist_ok=True)
    for number in range(FILES):
        (project / f"f{number}.cc").write_text(SOURCE.format(number=number))
    objects = " ".join(f"f{number}.o" for number in range(FILES))
    (project / "Makefile").write_text(f"all: {objects}\n%.o: %.cc\n\tg++ -O1 -c $< -o $@\n")


def build(bench: Bench) -> float:
    project = bench.directory / "project"
    for made in project.glob("*.o"):
        made.unlink()
    started = time.monotonic()
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}"], cwd=project, check=True)
    return time.monotonic() - started


def compile_job(bench: Bench) -> None:
    write_project(bench)
    build(bench)
    slower, results = [], []
    with bench.profd() as daemon:
        session = bench.profctl("start", "-a", "-F", 99).strip()  # once, so that the tables are there
        build(bench)
        bench.profctl("stop", session, "-o", bench.directory / "warm-up")
        for number in range(bench.rounds):
            plain = build(bench)
            before = cpu_of(daemon.pid)
            session = bench.profctl("start", "-a", "-F", 99).strip()
            profiled = build(bench)
            minute = (cpu_of(daemon.pid) - before) / profiled * 60
            bench.profctl("stop", session, "-o", bench.directory / f"job-{number}")
            results.append((bench.directory / f"job-{number}", minute))
            plain = (plain + build(bench)) / 2
            slower.append(100 * (profiled / plain - 1))
    report(slower, results, bench.rounds)


def cpu_of(pid: int) -> float:
    return sum(map(cpu_seconds, family(pid)))


def report(slower: list, results: list, rounds: int) -> None:
    taken = written = complete = user = 0
    reasons = collections.Counter()
    for directory, _ in results:
        summary = json.loads((directory / "session.json").read_text())
        taken += summary["ledger"]["taken"]
        written += summary["ledger"]["written"]
        chosen = [p for p in summary["profiles"] if p["comm"] in COMPILERS]
        complete += sum(p["complete_samples"] for p in chosen)
        user += sum(p["user_samples"] for p in chosen)
        for profile in chosen:
            reasons.update(profile["incomplete"])
    row(f"compile job of {FILES} files: ticks delivered", f"{100 * written / taken:.2f} %", "-", ">= 99.9 %")
    row("  complete user stacks", f"{100 * complete / user:.2f} % of {user}", "-", ">= 99.5 %")
    if reasons:
        print("    incomplete:", ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())))
    row(f"  slowed, 99 Hz, {rounds} rounds", interval(slower), "-", "<= 1 %")
    minutes = [minute for _, minute in results]
    row("  own CPU seconds a minute, parser too", f"{sum(minutes) / len(minutes):.3f}", "-", "<= 0.15")
