#!/usr/bin/python3
"""profctl ship of a real profd with windows of a second, to a strict stand-in of Pyroscope.

    tests/ctl/ship/ship_test.py BUILD

The samples and CPU time that arrive are, by window and all labels of a series, those of the window's file as protoc decodes
it; each window arrives once, in order, also where the endpoint was away; one that was in flight at a kill does not arrive
again. Each request has the tenant and the credentials of the configuration.
"""

import base64
import bisect
import collections
import gzip
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stand_in import StandIn, decode, number, numbers  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
SECOND_NS = 10**9
PARTS_NS = 10**7  # the profiles of a service that was split have times of a window's start to less than this after it
NOBODY = 65534
TENANT = "team-a"
USERNAME, PASSWORD = "profd", "a pass:word"
BASIC = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
# Labels of a process that its series has, as docs/man/profctl.1.scd has them; the pod's is parted.
PROCESS_LABELS = ("unit", "container", "pod", "user", "runtime")
PYTHON_LOOP = "import time\nwhile True:\n  sum(range(100000))\n  time.sleep(0.01)"


def eventually(condition, what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"in {seconds} s: not {what}")


def start_daemon(directory: pathlib.Path) -> subprocess.Popen:
    config = directory / "profd.toml"
    config.write_text('[continuous]\nenabled = true\nwindow = "1s"\nfrequency = 199\n')
    socket = directory / "profd.sock"
    daemon = subprocess.Popen([BUILD / "profd", "--config", config, "--socket", socket, "--state-dir", directory / "state"],
                              stderr=(directory / "profd.log").open("w"))
    eventually(socket.exists, "profd answers")
    return daemon


def start_workloads(directory: pathlib.Path) -> list:
    """A service of two users, and one with a runtime. They leave the CPUs to the test."""
    directory.chmod(0o711)
    shares = shutil.copy(BUILD / "tests/workloads/shares", directory / "shares")
    command = ["nice", "-n", "19", shares, "300"]
    return [subprocess.Popen(command, stdout=subprocess.DEVNULL),
            subprocess.Popen(command, stdout=subprocess.DEVNULL, user=NOBODY, group=NOBODY, extra_groups=[]),
            subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", PYTHON_LOOP])]


def end_all(processes: list) -> None:
    for process in processes:
        if process is not None:
            process.kill()
            process.wait()


class Shipper:
    def __init__(self, directory: pathlib.Path, port: int):
        self.directory = directory
        (directory / "ship").mkdir(exist_ok=True)
        (directory / "password").write_text(PASSWORD + "\n")
        (directory / "ship.toml").write_text(
            'host = "h1"\n[[service]]\ncomm = "shares"\nservice_name = "work-{comm}"\nlabels = { team = "t" }\n'
            f'[[pyroscope]]\nname = "a"\nurl = "http://127.0.0.1:{port}"\ntenant = "{TENANT}"\n'
            f'basic_auth = {{ username = "{USERNAME}", password_file = "{directory}/password" }}\n')
        self.process = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [BUILD / "profctl", "--socket", self.directory / "profd.sock", "ship", "--config", self.directory / "ship.toml",
             "--state-dir", self.directory / "ship", "--runtime-dir", self.directory / "run"],
            stderr=(self.directory / "ship.log").open("a"))

    def end(self, how: int) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)

    def state(self) -> dict:
        return json.loads((self.directory / "ship/a.json").read_text())

    def log(self) -> str:
        return (self.directory / "ship.log").read_text()


def sums(profile: dict) -> list:
    totals = [0, 0]
    for sample in profile.get("sample", []):
        totals = [a + b for a, b in zip(totals, numbers(sample, "value"))]
    return totals


def labels_of(profile: dict, sample: dict) -> dict:
    texts = profile["string_table"]
    return {texts[number(label, "key")]: texts[number(label, "str")] for label in sample.get("label", [])}


def read_window(path: pathlib.Path) -> dict:
    return decode("perftools.profiles.Profile", "profile.proto", gzip.decompress(path.read_bytes()))


def is_kernel_stack(profile: dict, functions: dict, locations: dict, sample: dict) -> bool:
    ids = numbers(sample, "location_id")
    if not ids:
        return False
    root = functions[number(locations[ids[-1]]["line"][-1], "function_id")]
    return profile["string_table"][number(root, "name")].startswith("ret_from_fork")


def samples_by_series(profile: dict) -> dict:
    """What the documentation says of services, once more: samples by the labels of their series."""
    functions = {number(one, "id"): one for one in profile.get("function", [])}
    locations = {number(one, "id"): one for one in profile.get("location", [])}
    texts = profile["string_table"]
    by_pid = collections.defaultdict(list)
    for sample in profile.get("sample", []):
        pid = [number(label, "num") for label in sample.get("label", []) if texts[number(label, "key")] == "pid"]
        by_pid[pid[0] if pid else 0].append(sample)
    series = collections.defaultdict(list)
    for pid, samples in by_pid.items():
        kernel = pid != 0 and all(is_kernel_stack(profile, functions, locations, one) for one in samples)
        for sample in samples:
            labels = series_labels(labels_of(profile, sample), kernel)
            series[frozenset(labels.items())].append(sample)
    return series


def samples_by_service(profile: dict) -> dict:
    services = collections.defaultdict(list)
    for labels, samples in samples_by_series(profile).items():
        services[dict(labels)["service_name"]].extend(samples)
    return services


def series_of(profile: dict) -> dict:
    """Totals by labels."""
    totals = {labels: sums({"sample": samples}) for labels, samples in samples_by_series(profile).items()}
    return {labels: total for labels, total in totals.items() if any(total)}


def series_labels(of_process: dict, kernel: bool) -> dict:
    labels = {key: text for key, text in of_process.items() if key in PROCESS_LABELS and text not in ("", "-")}
    if "pod" in labels:
        labels["namespace"], _, labels["pod"] = labels["pod"].partition("/")
    if of_process["comm"] == "shares":
        labels["team"] = "t"
    return {**labels, "__name__": "process_cpu", "host": "h1", "service_name": service_name(of_process, kernel)}


def header_of(profile: dict) -> tuple:
    """Types, period and duration."""
    texts = profile["string_table"]
    types = [(texts[number(one, "type")], texts[number(one, "unit")])
             for field in ("sample_type", "period_type") for one in profile.get(field, [])]
    return types, number(profile, "period"), number(profile, "duration_nanos")


def service_name(labels: dict, kernel: bool) -> str:
    if labels["comm"] == "shares":
        return "work-shares"
    if kernel:
        return "kernel"
    if labels["unit"].endswith(".service"):
        return labels["unit"][:-len(".service")]
    known = [labels[key] for key in ("container", "comm") if labels[key] != "-"]
    return known[0] if known else "unknown"


def window_of(starts: list, profile: dict) -> int:
    """The start of the window of a profile. One of a service that was split has a time some nanoseconds later."""
    time_ns = number(profile, "time_nanos")
    place = bisect.bisect_right(starts, time_ns)
    assert place > 0, f"a profile of {time_ns}, before the first window"
    return starts[place - 1]


def totals_by_window(received: list, start_of) -> dict:
    """In the order of arrival: totals by labels, by the start of the window."""
    windows = {}
    for labels, profile in received:
        series = windows.setdefault(start_of(profile), collections.defaultdict(lambda: [0, 0]))
        key = frozenset(labels.items())
        series[key] = [a + b for a, b in zip(series[key], sums(profile))]
    return windows


def seconds_of(received: list) -> list:
    """Of the windows that have arrived: about one begins in each."""
    return list(dict.fromkeys(number(profile, "time_nanos") // SECOND_NS for _, profile in received))


def difference(expected: dict, arrived: dict) -> str:
    """Of two windows; "": none."""
    labels = sorted({one for one in expected.keys() | arrived.keys() if expected.get(one) != arrived.get(one)}, key=sorted)
    return "\n".join(f"{sorted(one)}: {arrived.get(one)}, expected {expected.get(one)}" for one in labels)


def expect_equal(directory: pathlib.Path, received: list, last: str, but_for: set) -> int:
    expected, headers, rows = {}, {}, {}
    for path in sorted((directory / "state/windows").glob("*.pb.gz")):
        name = path.name.removesuffix(".pb.gz")
        profile = read_window(path)
        if name <= last and name not in but_for and series_of(profile):
            start = number(profile, "time_nanos")
            expected[start] = series_of(profile)
            headers[start], rows[start] = header_of(profile), len(profile["sample"])
    starts = sorted(expected)
    for _, profile in received:
        start = window_of(starts, profile)
        assert number(profile, "time_nanos") - start < min(rows[start], PARTS_NS), (number(profile, "time_nanos"), start)
        assert header_of(profile) == headers[start], (header_of(profile), headers[start])
    arrived = totals_by_window(received, lambda profile: window_of(starts, profile))
    assert list(arrived) == starts, f"not in order, or others: {list(arrived)}, expected {starts}"
    for start, series in expected.items():
        assert arrived[start] == series, f"{start}: {difference(series, arrived[start])}"
    return len(expected)


def expect_workloads(received: list) -> None:
    """By what the test has started, not by what a window says of it."""
    users = {labels.get("user") for labels, _ in received if labels["service_name"] == "work-shares"}
    wanted = {pwd.getpwuid(uid).pw_name for uid in (os.geteuid(), NOBODY)}
    assert wanted <= users, f"work-shares has the users {users}, expected {wanted}"
    runtimes = {labels.get("runtime") for labels, _ in received}
    assert "python" in runtimes, runtimes


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        engine = StandIn(tenant=TENANT, authorization=BASIC)
        shipper = Shipper(directory, engine.port)
        daemon = start_daemon(directory)
        work = start_workloads(directory)
        try:
            run(directory, engine, shipper)
        finally:
            sys.stderr.write(shipper.log() if (directory / "ship.log").exists() else "")
            end_all([*work, daemon, shipper.process])


def arrived_after(engine: StandIn, count: int) -> bool:
    return len(seconds_of(list(engine.received))) >= count


def expect_two_directories(directory: pathlib.Path) -> None:
    for name in ("ship", "absent"):
        done = subprocess.run(
            [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", directory / "ship.toml",
             "--state-dir", directory / name, "--runtime-dir", f"{directory}/{name}/"],
            capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2 and "--runtime-dir is the same" in done.stderr, done
    assert not (directory / "absent").exists()


def run(directory: pathlib.Path, engine: StandIn, shipper: Shipper) -> None:
    expect_two_directories(directory)
    shipper.start()
    eventually(lambda: arrived_after(engine, 3), "three windows arrive")

    engine.stop()  # away
    time.sleep(4)
    before = len(seconds_of(list(engine.received)))
    engine.start()
    eventually(lambda: arrived_after(engine, before + 4), "the windows of the outage arrive")

    engine.status = 503  # refuses for some time
    time.sleep(3)
    engine.status = None
    before = len(seconds_of(list(engine.received)))
    eventually(lambda: arrived_after(engine, before + 3), "windows arrive after errors")

    engine.hangs = True  # takes a request, and profctl is killed
    assert engine.hung.wait(60)
    in_flight = shipper.state()["in_flight"]
    shipper.end(signal.SIGKILL)
    engine.hangs = False
    before = len(seconds_of(list(engine.received)))
    shipper.start()
    eventually(lambda: arrived_after(engine, before + 2), "windows arrive after a kill")
    assert "could not connect" in shipper.log() and "works again" in shipper.log(), shipper.log()
    assert f"window {in_flight} was in flight" in shipper.log(), in_flight
    assert shipper.end(signal.SIGTERM) == 0

    assert not engine.refused, engine.refused
    state = shipper.state()
    assert state["windows_unknown"] == 1 and state["in_flight"] == "", state
    # A part of the one that was in flight may have arrived before the request that hung.
    time_of = number(read_window(directory / f"state/windows/{in_flight}.pb.gz"), "time_nanos")
    whole = [(labels, profile) for labels, profile in engine.received
             if not 0 <= number(profile, "time_nanos") - time_of < PARTS_NS]
    count = expect_equal(directory, whole, state["window"], {in_flight})
    expect_workloads(whole)
    assert not state["windows_dropped"] and not state["profiles_dropped"], state
    assert state["profiles_sent"] == len(whole), (len(whole), state)
    print(f"{count} windows, {len(engine.received)} profiles: each once, in order, with the totals of its window")


if __name__ == "__main__":
    main()
