"""Ten minutes of windows, sessions, exports and short processes: memory and descriptors stay level after warm-up."""

import contextlib
import pathlib
import shutil
import time

from continuous import continuous, running
from harness import Bench, family, row, rss_bytes

WINDOW = 10
WARM_UP = 120
MINUTES = 10


def descriptors(pid: int) -> int:
    """Of the daemon and its parsers."""
    return sum(len(list(pathlib.Path(f"/proc/{member}/fd").iterdir())) for member in family(pid))


def use(bench: Bench) -> None:
    """What people do meanwhile."""
    session = bench.profctl("start", "-a", "-F", 99).strip()
    out = bench.directory / "mixed"
    with running(bench, [("storm", 2), ("shares", 2), ("nest", 2)]):
        time.sleep(2)
    bench.profctl("dump", session, "-o", out / "dump")
    bench.profctl("stop", session, "-o", out / "stop")
    bench.profctl("ps")
    bench.profctl("history", "--last", "5m")
    bench.profctl("export", "--last", "1m", "-o", out / "export")
    shutil.rmtree(out)


def mixed_load(bench: Bench) -> None:
    figures = []
    with continuous(bench, window=WINDOW) as daemon, contextlib.ExitStack() as load:
        load.enter_context(running(bench, [("family", 3600, "storm"), ("depth", 3600, 25), ("reader", 3600)]))
        started = time.monotonic()
        time.sleep(2 * WINDOW)
        while time.monotonic() - started < MINUTES * 60:
            use(bench)
            if time.monotonic() - started >= WARM_UP:
                figures.append((rss_bytes(daemon.pid), descriptors(daemon.pid)))
    third = len(figures) // 3
    # Descriptors of what runs just then come and go: the lowest counts are what stays.
    for name, index, unit, level in (("resident memory, MB", 0, 1e6, max), ("descriptors", 1, 1, min)):
        early, late = (level(figure[index] / unit for figure in part) for part in (figures[:third], figures[-third:]))
        row(f"{MINUTES} minutes of mixed load: {name}", f"{early:.1f} then {late:.1f}", "-", "level")
