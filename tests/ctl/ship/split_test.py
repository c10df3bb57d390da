#!/usr/bin/python3
"""A real profctl ship sends windows with services that are too large for one profile, to strict stand-ins of all engines.

    tests/ctl/ship/split_test.py BUILD

A stand-in of the daemon serves the windows, which protoc encodes. The profiles of a service that was split have together the
stacks and samples of the window, each once, and each has a time of its own: Pyroscope would drop one of two with one time.
"""

import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from daemon_stand_in import DaemonStandIn, windows_at  # noqa: E402
from otlp_stand_in import OtlpStandIn  # noqa: E402
from parca_stand_in import ParcaStandIn  # noqa: E402
from ship_test import BUILD, end_all, eventually, expect_equal, read_window  # noqa: E402
from split_windows import FEW, LONG, MANY, split_window_text  # noqa: E402
from stand_in import MAX_FRAMES, StandIn, number, numbers  # noqa: E402

WINDOWS = 2
CUT_FRAME = "[frames left out]"


def start_shipper(directory: pathlib.Path, engines: dict) -> subprocess.Popen:
    (directory / "ship").mkdir()
    endpoints = "".join(f'[[{kind}]]\nname = "{kind}"\nurl = "http://127.0.0.1:{engine.port}"\n'
                        for kind, engine in engines.items())
    (directory / "ship.toml").write_text('host = "h1"\n' + endpoints)
    with (directory / "ship.log").open("w") as log:
        return subprocess.Popen(
            [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", directory / "ship.toml",
             "--state-dir", directory / "ship", "--runtime-dir", directory / "run"], stderr=log)


def state_of(directory: pathlib.Path, kind: str) -> dict:
    path = directory / f"ship/{kind}.json"
    return json.loads(path.read_text()) if path.exists() else {"window": ""}


def stacks_of(profiles: list) -> collections.Counter:
    """Samples by stack, a tuple of names with the innermost first."""
    counts = collections.Counter()
    for profile in profiles:
        texts = profile["string_table"]
        names = {number(one, "id"): texts[number(one, "name")] for one in profile["function"]}
        places = {number(one, "id"): names[number(one["line"][0], "function_id")] for one in profile["location"]}
        for sample in profile["sample"]:
            counts[tuple(places[one] for one in numbers(sample, "location_id"))] += numbers(sample, "value")[0]
    return counts


def cut(stacks: collections.Counter) -> collections.Counter:
    """As Pyroscope takes them: the root is cut, and a frame says so."""
    return collections.Counter({stack if len(stack) <= MAX_FRAMES else (*stack[:MAX_FRAMES - 1], CUT_FRAME): count
                                for stack, count in stacks.items()})


def check_stacks(directory: pathlib.Path, kind: str, received: list) -> None:
    whole = stacks_of([read_window(path) for path in (directory / "state/windows").glob("*.pb.gz")])
    assert max(map(len, whole)) > MAX_FRAMES
    arrived = stacks_of([profile for _, profile in received])
    expected = whole if kind == "parca" else cut(whole)  # Parca takes stacks of any depth
    if arrived != expected:
        wrong = [stack for stack in arrived.keys() | expected.keys() if arrived[stack] != expected[stack]]
        raise AssertionError(f"{kind}: {len(wrong)} stacks differ, such as {min(wrong, key=len)[:5]} of "
                             f"{sorted({len(stack) for stack in wrong})} frames")


def check_parts(kind: str, received: list) -> None:
    profiles = collections.Counter(labels["service_name"] for labels, _ in received)
    assert profiles[MANY] >= 2 * WINDOWS and profiles[LONG] >= 2 * WINDOWS, (kind, profiles)
    assert profiles[FEW] == WINDOWS, (kind, profiles)
    times = collections.Counter((labels["service_name"], number(profile, "time_nanos")) for labels, profile in received)
    assert max(times.values()) == 1, (kind, times.most_common(3))


def check(directory: pathlib.Path, kind: str, engine: StandIn) -> None:
    assert not engine.refused, (kind, engine.refused)
    state = state_of(directory, kind)
    assert state["windows_sent"] == WINDOWS and state["windows_unknown"] == 0, (kind, state)
    assert not state["windows_dropped"] and not state["profiles_dropped"], (kind, state)
    assert state["profiles_sent"] == len(engine.received), (kind, state)
    expect_equal(directory, engine.received, state["window"], set())
    check_parts(kind, engine.received)
    if kind != "otlp":  # its stand-in keeps sums alone
        check_stacks(directory, kind, engine.received)
    print(f"{kind}: {WINDOWS} windows in {len(engine.received)} profiles, which have their samples once")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="profd-ship-split-") as name:
        directory = pathlib.Path(name)
        first = int(time.time()) // 60 * 60 - 10 * 60  # minutes ago, so that no window waits for its turn
        windows = windows_at(split_window_text(has_deep_stack=True), [first + 60 * minute for minute in range(WINDOWS)])
        (directory / "state/windows").mkdir(parents=True)
        for window, file in windows.items():
            (directory / f"state/windows/{window}.pb.gz").write_bytes(file)
        DaemonStandIn(directory / "profd.sock", windows)
        engines = {"pyroscope": StandIn(), "parca": ParcaStandIn(), "otlp": OtlpStandIn()}
        shipper = start_shipper(directory, engines)
        try:
            for kind in engines:
                eventually(lambda: state_of(directory, kind)["window"] == max(windows), f"{kind} has the windows", 240)
            shipper.send_signal(signal.SIGTERM)
            assert shipper.wait(60) == 0
            for kind, engine in engines.items():
                check(directory, kind, engine)
        finally:
            sys.stderr.write((directory / "ship.log").read_text())
            end_all([shipper])


main()
