"""What looking costs: a report and a flame graph of a day, of a merged file and of the history, beside the page of Go's
pprof, and of a minute beside `perf report`; `profctl top` beside `perf top`; and the file of a flame graph beside
pprof's page.

speedscope and py-spy are no packages of Debian 12: a row says so, and py-spy is measured where it is installed.
"""

import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

from harness import Bench, cpu_seconds, row

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "ctl" / "page"))

# Without the first refresh, which comes before the programs are busy.
SECONDS = 20
BUSY_CPUS = 2
SAMPLES_OF_A_NODE = 10

FIRST_PICTURE = """
const [first] = performance.getEntriesByName("first-contentful-paint");
const [shown] = performance.getEntriesByName("profd-shown");
const [navigation] = performance.getEntriesByType("navigation");
return {data: navigation.responseEnd, first: first ? first.startTime : -1, shown: shown ? shown.startTime : -1,
        loaded: navigation.loadEventEnd};
"""


# In the page of Debian's pprof each box is a group of SVG, to which d3 listens.
HOVER_OF_PPROF = """
const boxes = document.querySelectorAll("#chart g[name], #chart g.frame, #chart g");
boxes[(i * 37) % boxes.length].dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
"""
ZOOM_OF_PPROF = """
const boxes = document.querySelectorAll("#chart g[name], #chart g.frame, #chart g");
boxes[i % 2 ? 0 : boxes.length >> 1].dispatchEvent(new MouseEvent("click", {bubbles: true}));
"""
BOXES_OF_PPROF = "return document.querySelectorAll('#chart g').length"


def not_measured(tool: str, why: str) -> None:
    row(f"  beside {tool}", "-", f"not measured: {why}")


def beside(ours: float, theirs: float, unit: str) -> str:
    """The peer's figure, and how many times ours it is."""
    return f"{theirs:.{0 if theirs >= 10 else 2}f} {unit} ({theirs / max(ours, 1e-9):.1f} x)"


def cost_of(command: list, **options) -> tuple:
    """Seconds and the most resident MB of a command, which must succeed."""
    started = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return seconds, usage.ru_maxrss / 1000


def median_cost(command: list, output: pathlib.Path = None, **options) -> tuple:
    """`output` is removed before each run: profctl overwrites no file."""
    costs = []
    for _ in range(3):
        if output is not None:
            output.unlink(missing_ok=True)
        costs.append(cost_of(command, **options))
    return tuple(statistics.median(values) for values in zip(*costs))


def most_resident(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def cost_of_pprof_page(bench: Bench, profile: pathlib.Path) -> tuple:
    """From the start of pprof to the whole first page with its flame graph."""
    started = time.monotonic()
    with page_of_pprof(bench, profile) as (url, server):
        without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with without_proxy.open(url, timeout=600) as answer:
            answer.read()
        return time.monotonic() - started, most_resident(server.pid)


def day(bench: Bench) -> None:
    maker = bench.profd_binary.parent / "day_profile_maker"
    for name, stacks, floor in (("10 minutes", 20_000, "<= 0.15 s"), ("a day", 1_000_000, "<= 1 s, <= 200 MB")):
        profile = bench.directory / f"day_{stacks}.pb.gz"
        subprocess.run([str(maker), str(stacks), str(profile)], check=True)
        theirs, their_memory = cost_of_pprof_page(bench, profile)
        html = bench.directory / "day.html"
        for what, arguments in (("report", ["report", profile]), ("flame", ["flame", profile, "-o", html])):
            ours, memory = median_cost([bench.profctl_binary, *arguments], html, env=bench.environment)
            row(f"{what} of {name}, of a merged file, s", f"{ours:.3f}", beside(ours, theirs, "s, pprof -http"), floor)
            row("  most memory, MB", f"{memory:.0f}", beside(memory, their_memory, "MB"))
        profile.unlink()


def cost_of_first_flame(bench: Bench, since: int, until: int) -> tuple:
    """From the start of `profctl web` to the data of its first flame graph."""
    started = time.monotonic()
    server = subprocess.Popen([str(bench.profctl_binary), "web", "--port", "0"], env=bench.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = server.stdout.readline().strip().replace("/?", f"/api/flame?since={since}000&until={until}000&")
        without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with without_proxy.open(url, timeout=600) as answer:
            data = answer.read()
        seconds, memory = time.monotonic() - started, most_resident(server.pid)
        if not json.loads(data)["nodes"]["depth"]:
            sys.exit("the flame graph of profctl web has no nodes")
        return seconds, memory
    finally:
        server.kill()
        server.communicate()


def looks_of(bench: Bench, since: int, until: int) -> dict:
    """Ways to look at a time of the history, each of which returns its seconds and MB."""
    span = ["--since", f"@{since}", "--until", f"@{until}"]
    html = bench.directory / "history.html"

    def by_profctl(*arguments) -> tuple:
        html.unlink(missing_ok=True)
        return cost_of([bench.profctl_binary, *arguments], env=bench.environment)

    return {"report": lambda: by_profctl("report", *span),
            "flame": lambda: by_profctl("flame", *span, "-o", html),
            "first flame graph of profctl web": lambda: cost_of_first_flame(bench, since, until)}


def history(bench: Bench) -> None:
    """A daemon for each row, so that its memory is that of the row."""
    state, config = "history", bench.directory / "history.toml"
    maker = bench.profd_binary.parent / "history_maker"
    made = subprocess.run([str(maker), str(bench.directory / state)], check=True, capture_output=True, text=True).stdout
    start, until, hours, windows = map(int, made.split())
    config.touch()  # that of an installed profd does not count
    merged = bench.directory / "history.pb.gz"
    for name, since, floor in (("10 minutes", until - 600, "<= 0.15 s"), ("a day", start, "<= 1 s, <= 200 MB")):
        with bench.profd("--config", str(config), state=state):
            kept = bench.status()["continuous"]
            if (kept["hours"], kept["windows"]) != (hours, windows):
                sys.exit(f"profd has {kept['hours']} hours and {kept['windows']} windows, not {hours} and {windows}")
            merged.unlink(missing_ok=True)
            bench.profctl("export", "--since", f"@{since}", "--until", f"@{until}", "-o", merged)
        theirs, their_memory = cost_of_pprof_page(bench, merged)
        for what, look in looks_of(bench, since, until).items():
            with bench.profd("--config", str(config), state=state) as daemon:
                before = most_resident(daemon.pid)
                ours, memory = (statistics.median(values) for values in zip(*(look() for _ in range(3))))
                of_daemon = most_resident(daemon.pid)
            row(f"{what} of {name}, of the history, s", f"{ours:.3f}", beside(ours, theirs, "s, pprof -http of a file"), floor)
            row("  most memory of profctl, MB", f"{memory:.0f}", beside(memory, their_memory, "MB"))
            row("  most memory of the daemon, MB", f"{of_daemon:.0f}", f"{before:.0f} MB before")


def minute(bench: Bench) -> None:
    if shutil.which("perf") is None:
        not_measured("perf report of a minute", "perf is not installed")
        return
    profile = bench.directory / "minute.pb.gz"
    with busy_cpus(bench, 90, os.cpu_count()), bench.profd(), bench.perf(99, {}):
        bench.profctl("record", "-a", "-F", 99, "-d", "60s", "-o", profile)
    ours, memory = median_cost([bench.profctl_binary, "report", profile], env=bench.environment)
    theirs, their_memory = median_cost(["perf", "report", "--stdio", "-i", bench.directory / "perf.data"])
    row("report of one minute, s", f"{ours:.3f}", beside(ours, theirs, "s, perf report"))
    row("  most memory, MB", f"{memory:.0f}", beside(memory, their_memory, "MB"))


def pyspy_share() -> float:
    """py-spy top on a busy interpreter, in % of one CPU. It needs a terminal, which script(1) makes."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    top_of_python = subprocess.Popen(["script", "-qec", f"exec py-spy top --pid {busy.pid}", "/dev/null"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(5)
        children = pathlib.Path(f"/proc/{top_of_python.pid}/task/{top_of_python.pid}/children").read_text(encoding="ascii")
        return share_of(int(children.split()[0]), SECONDS)
    finally:
        for process in (top_of_python, busy):
            process.kill()
            process.wait()


@contextlib.contextmanager
def busy_cpus(bench: Bench, seconds: int, count: int):
    running = [bench.workload("depth", seconds, 25) for _ in range(count)]
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
    with busy_cpus(bench, 4 * SECONDS, BUSY_CPUS):
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
    row("top, two busy CPUs, % of one CPU", f"{share:.2f}", beside(share, peer, "%, perf top"), "<= 0.5")
    row("  of the daemon meanwhile", f"{of_daemon:.2f}", "-")
    if shutil.which("py-spy") is None:
        not_measured("py-spy top", "not installed, and no package of Debian 12")
    else:
        row("  beside py-spy top, of one busy interpreter", f"{share:.2f}", beside(share, pyspy_share(), "%, py-spy top"))


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
        yield f"http://{address}/ui/flamegraph", server
    finally:
        server.kill()
        server.wait()


def first_picture(browser, url: str) -> dict:
    browser.get("about:blank")
    browser.get(url)
    time.sleep(1)  # the first paint is noted after the event "load"
    return browser.execute_script(FIRST_PICTURE)


def write_folded(path: pathlib.Path, stacks: list, samples: int) -> int:
    """The stacks with as many times their samples as are needed for at least so many; returns the sum."""
    made = sum(count for _, count in stacks)
    times = math.ceil(samples / made)
    path.write_text("".join(f"{';'.join(stack)} {times * count}\n" for stack, count in stacks), encoding="utf-8")
    return times * made


def page(bench: Bench) -> None:
    # Here, so that the other parts need neither Chromium nor selenium.
    from browser import HANG_GUARD, HOVER, MEASURE, ZOOM, make_stacks, open_browser  # pylint: disable=import-outside-toplevel
    browser = open_browser()
    browser.set_script_timeout(HANG_GUARD)
    try:
        for nodes, opening in ((10_000, ""), (100_000, "<= 1000")):
            folded, html, packed = (bench.directory / f"nodes_{nodes}.{end}" for end in ("folded", "html", "pb.gz"))
            samples = write_folded(folded, make_stacks(nodes * 4 // 25, 60), nodes * SAMPLES_OF_A_NODE)
            bench.profctl("flame", folded, "-o", html)
            bench.profctl("convert", folded, "-o", packed)
            ours = first_picture(browser, html.as_uri())
            hover = browser.execute_async_script(MEASURE, HOVER, 40)
            zoom = browser.execute_async_script(MEASURE, ZOOM, 20)
            with page_of_pprof(bench, packed) as (url, _):
                theirs = first_picture(browser, url)
                can_act = browser.execute_script(BOXES_OF_PPROF) > 0
                their_hover = browser.execute_async_script(MEASURE, HOVER_OF_PPROF, 40) if can_act else None
                their_zoom = browser.execute_async_script(MEASURE, ZOOM_OF_PPROF, 20) if can_act else None
            after_data, their_after_data = ours["shown"] - ours["data"], theirs["first"] - theirs["data"]
            row(f"{nodes} nodes: samples", str(samples), "-")
            row("  first picture after the data, ms", f"{after_data:.0f}",
                beside(after_data, their_after_data, "ms, pprof -http"), "<= 300")
            row("  opens, from the start of loading, ms", f"{ours['shown']:.0f}", beside(ours["shown"], theirs["first"], "ms"),
                opening)
            for act, mine, peer, floor in (("hover", hover, their_hover, "<= 16"), ("zoom", zoom, their_zoom, "<= 50")):
                row(f"  {act}, script and next frame, ms", f"{mine['script']:.1f}, {mine['frame']:.1f}",
                    "not measured: no boxes found" if peer is None else f"{peer['script']:.1f}, {peer['frame']:.1f} "
                    f"({peer['frame'] / max(mine['frame'], 0.1):.1f} x)", floor)
            row("  bytes of the file", str(html.stat().st_size), "-", "<= 5000000")
        not_measured("speedscope", "no package of Debian 12")
    finally:
        browser.quit()
