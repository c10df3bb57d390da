"""What recording a running app's calls costs: the app for a call, and profd for a record."""

import json
import os
import pathlib
import statistics
import subprocess
import time

from harness import Bench, cpu_seconds, family, row

CALLS = 2_000_000
SOURCE = pathlib.Path(__file__).parent / "xray_live_app.cc"


class App:
    def __init__(self, program: pathlib.Path, calls: int, **environment: str):
        self.process = subprocess.Popen([program, str(calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **environment))
        assert self.process.stdout.readline() == "ready\n"

    def ns_a_call(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def build(bench: Bench, name: str, *flags: str) -> pathlib.Path:
    program = bench.directory / name
    include = SOURCE.parents[2] / "collectors/xray/app"
    subprocess.run(["clang++", "-O2", "-std=c++20", f"-I{include}", str(SOURCE), "-o", program, *flags, "-lpthread"],
                   check=True)
    return program


def start(bench: Bench, app: App) -> str:
    """As soon as the app has come."""
    for _ in range(100):
        try:
            return bench.profctl("start", "--event", "xray", "--pid", app.process.pid).strip()
        except subprocess.CalledProcessError:
            time.sleep(0.05)
    raise RuntimeError("the app does not come to profd")


def cost_of_a_call(bench: Bench, plain: App, unpatched: App, recorded: App, fdr: App) -> None:
    """Interleaved, since the machine's speed varies."""
    rounds = {"plain": [], "unpatched": [], "profd": [], "fdr": []}
    session = start(bench, recorded)
    for _ in range(max(bench.rounds, 10)):
        for name, app in (("plain", plain), ("unpatched", unpatched), ("profd", recorded), ("fdr", fdr)):
            rounds[name].append(app.ns_a_call())
    bench.profctl("stop", session, "-o", bench.directory / "xray-cost")
    median = {name: statistics.median(values) for name, values in rounds.items()}
    row("XRay: ns a call, unpatched", f"{median['unpatched'] - median['plain']:.2f}", "-", "<= 2")
    row("XRay: ns a call, recorded (beside: XRay's FDR mode)", f"{median['profd']:.1f}", f"{median['fdr']:.1f}",
        "not above")
    row("XRay: ns a call afterwards, unpatched again", f"{recorded.ns_a_call() - median['plain']:.2f}", "-", "<= 2")


def speed_of_reading(bench: Bench, daemon: int, app: App) -> None:
    """By the CPU time of the process that follows the app."""
    others = family(daemon)  # parsers, and the follower of a session that is just over
    session = start(bench, app)
    followers = [process for process in family(daemon) if process not in others]
    before = sum(map(cpu_seconds, followers))
    for _ in range(10):
        app.ns_a_call()
    time.sleep(0.3)
    seconds = sum(map(cpu_seconds, followers)) - before
    out = bench.directory / "xray-speed"
    bench.profctl("stop", session, "-o", out)
    summary = json.loads((out / "session.json").read_text())
    records = summary["ledger"]["written"]
    row("XRay: million records a second into profiles, one core", f"{records / seconds / 1e6:.0f}", "-", ">= 10")
    row("XRay: records lost meanwhile", str(sum(summary["ledger"]["lost"].values())), "-", "0")


def attach_time(bench: Bench, app: App) -> None:
    """From the command to a session whose first records are counted."""
    times = []
    for i in range(5):
        begin = time.monotonic()
        session = start(bench, app)
        app.process.stdin.write("\n")
        app.process.stdin.flush()
        while True:
            sessions = json.loads(bench.profctl("list", "--json"))["sessions"]
            if any(one["session"] == session and one["samples"] > 0 for one in sessions):
                break
        times.append(time.monotonic() - begin)
        app.process.stdout.readline()
        bench.profctl("stop", session, "-o", bench.directory / f"xray-attach-{i}")
    row("XRay: from `profctl start` to the first records, ms", f"{statistics.median(times) * 1e3:.0f}", "-", "<= 100")


def xray_live(bench: Bench) -> None:
    instrumented = ["-fxray-instrument", "-fxray-instruction-threshold=1"]
    library = bench.profd_binary.parent / "collectors/xray/app/libprofd_xray.a"
    plain = build(bench, "xray-plain")
    ours = build(bench, "xray-ours", *instrumented, "-DPROFD_XRAY", str(library))
    theirs = build(bench, "xray-fdr", *instrumented)
    with bench.profd() as daemon:
        socket = str(pathlib.Path(bench.environment["PROFD_SOCKET"]).parent / "app.sock")
        fdr = {"XRAY_OPTIONS": f"patch_premain=true xray_mode=xray-fdr xray_logfile_base={bench.directory}/fdr.",
               "XRAY_FDR_OPTIONS": "func_duration_threshold_us=0 buffer_size=16777216 buffer_max=4 no_file_flush=true"}
        apps = [App(plain, CALLS), App(ours, CALLS, PROFD_XRAY_SOCKET=socket),
                App(ours, CALLS, PROFD_XRAY_SOCKET=socket), App(theirs, CALLS, **fdr)]
        cost_of_a_call(bench, *apps)
        speed_of_reading(bench, daemon.pid, apps[2])
        attach_time(bench, apps[2])
        for app in apps:
            app.close()
