"""What looking costs: `profctl top` beside `perf top`, and the file of a flame graph beside the page of Go's pprof."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from harness import Bench, cpu_seconds, row

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "ctl" / "page"))

# Without the first refresh, which comes before the programs are busy.
SECONDS = 20

FIRST_PICTURE = """
const [first] = performance.getEntriesByName("first-contentful-paint");
const [shown] = performance.getEntriesByName("profd-shown");
const [navigation] = performance.getEntriesByType("navigation");
return {data: navigation.responseEnd, first: first ? first.startTime : -1, shown: shown ? shown.startTime : -1,
        loaded: navigation.loadEventEnd};
"""


@contextlib.contextmanager
def busy_cpus(bench: Bench, seconds: int):
    running = [bench.workload("depth", seconds, 25) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.communicate()


def share_of(pid: int, seconds: int) -> float:
    """What the process used of one CPU in so many seconds, in per cent."""
    before, started = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - started)


def end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGINT)
    process.communicate()


def top(bench: Bench) -> None:
    with busy_cpus(bench, 4 * SECONDS):
        with bench.profd() as daemon:
            ours = subprocess.Popen([str(bench.profctl_binary), "top", "-b"], env=bench.environment,
                                    stdout=subprocess.DEVNULL)
            time.sleep(5)
            before = cpu_seconds(daemon.pid)
            share = share_of(ours.pid, SECONDS)
            of_daemon = 100 * (cpu_seconds(daemon.pid) - before) / SECONDS
            end(ours)
        theirs = subprocess.Popen(["perf", "top", "--stdio", "-e", "cpu-clock", "-F", "99", "-g"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(5)
        peer = share_of(theirs.pid, SECONDS)
        end(theirs)
    row("top, two busy CPUs, % of one CPU", f"{share:.2f}", f"{peer:.2f}", "<= 0.5")
    row("  of the daemon meanwhile", f"{of_daemon:.2f}", "-")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def page_of_pprof(bench: Bench, profile: pathlib.Path):
    address = f"127.0.0.1:{free_port()}"
    pprof = bench.profd_binary.parent / "go-pprof"
    server = subprocess.Popen([str(pprof), f"-http={address}", "-no_browser", "-symbolize=none", str(profile)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        host, port = address.split(":")
        while True:
            with socket.socket() as one:
                if one.connect_ex((host, int(port))) == 0:
                    break
            if server.poll() is not None:
                sys.exit("pprof -http did not start")
            time.sleep(0.05)
        yield f"http://{address}/ui/flamegraph"
    finally:
        server.kill()
        server.wait()


def first_picture(browser, url: str) -> dict:
    browser.get("about:blank")
    browser.get(url)
    time.sleep(1)  # the first paint is noted after the event "load"
    return browser.execute_script(FIRST_PICTURE)


def page(bench: Bench) -> None:
    # Here, so that the other parts need neither Chromium nor selenium.
    from browser import HANG_GUARD, HOVER, MEASURE, ZOOM, make_stacks, open_browser  # pylint: disable=import-outside-toplevel
    browser = open_browser()
    browser.set_script_timeout(HANG_GUARD)
    try:
        for nodes in (10_000, 100_000):
            folded, html, packed = (bench.directory / f"nodes_{nodes}.{end}" for end in ("folded", "html", "pb.gz"))
            folded.write_text("".join(f"{';'.join(stack)} {samples}\n" for stack, samples in make_stacks(nodes * 4 // 25, 60)),
                              encoding="utf-8")
            bench.profctl("flame", folded, "-o", html)
            bench.profctl("convert", folded, "-o", packed)
            ours = first_picture(browser, html.as_uri())
            hover = browser.execute_async_script(MEASURE, HOVER, 40)
            zoom = browser.execute_async_script(MEASURE, ZOOM, 20)
            with page_of_pprof(bench, packed) as url:
                theirs = first_picture(browser, url)
            row(f"{nodes} nodes: first picture after the data, ms", f"{ours['shown'] - ours['data']:.0f}",
                f"{theirs['first'] - theirs['data']:.0f} (pprof -http)", "<= 300")
            row("  the same from the start of loading, ms", f"{ours['shown']:.0f}", f"{theirs['first']:.0f}")
            row("  hover, script and next frame, ms", f"{hover['script']:.1f}, {hover['frame']:.1f}", "-", "<= 16")
            row("  zoom, script and next frame, ms", f"{zoom['script']:.1f}, {zoom['frame']:.1f}", "-", "<= 50")
            row("  bytes of the file", str(html.stat().st_size), "-", "<= 5000000")
    finally:
        browser.quit()
