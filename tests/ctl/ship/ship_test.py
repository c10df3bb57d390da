#!/usr/bin/python3
"""profctl ship of a real profd with windows of a second, to a strict stand-in of Pyroscope.

    tests/ctl/ship/ship_test.py BUILD

The samples and CPU time that arrive are, by service and window, those of the window's file as protoc decodes it; each
window arrives once, in order, also where the endpoint was away; one that was in flight at a kill does not arrive again.
"""

import collections
import gzip
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stand_in import StandIn, decode, number, numbers  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()


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


class Shipper:
    def __init__(self, directory: pathlib.Path, port: int):
        self.directory = directory
        (directory / "ship").mkdir(exist_ok=True)
        (directory / "ship.toml").write_text(
            'host = "h1"\n[[service]]\ncomm = "shares"\nservice_name = "work-{comm}"\nlabels = { team = "t" }\n'
            f'[[pyroscope]]\nname = "a"\nurl = "http://127.0.0.1:{port}"\n')
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


def samples_by_service(profile: dict) -> dict:
    """What the documentation says of services, once more: samples by name."""
    functions = {number(one, "id"): one for one in profile.get("function", [])}
    locations = {number(one, "id"): one for one in profile.get("location", [])}
    texts = profile["string_table"]
    by_pid = collections.defaultdict(list)
    for sample in profile.get("sample", []):
        pid = [number(label, "num") for label in sample.get("label", []) if texts[number(label, "key")] == "pid"]
        by_pid[pid[0] if pid else 0].append(sample)
    services = collections.defaultdict(list)
    for pid, samples in by_pid.items():
        kernel = pid != 0 and all(is_kernel_stack(profile, functions, locations, one) for one in samples)
        for sample in samples:
            services[service_name(labels_of(profile, sample), kernel)].append(sample)
    return services


def services_of(profile: dict) -> dict:
    """Totals by name."""
    totals = {name: sums({"sample": samples}) for name, samples in samples_by_service(profile).items()}
    return {name: total for name, total in totals.items() if any(total)}


def service_name(labels: dict, kernel: bool) -> str:
    if labels["comm"] == "shares":
        return "work-shares"
    if kernel:
        return "kernel"
    if labels["unit"].endswith(".service"):
        return labels["unit"][:-len(".service")]
    known = [labels[key] for key in ("container", "comm") if labels[key] != "-"]
    return known[0] if known else "unknown"


def windows_of(received: list) -> dict:
    """In the order of arrival: totals by service, by time."""
    windows = {}
    for labels, profile in received:
        assert labels["host"] == "h1" and labels["__name__"] == "process_cpu", labels
        assert (labels["service_name"] == "work-shares") == (labels.get("team") == "t"), labels
        services = windows.setdefault(number(profile, "time_nanos"), collections.defaultdict(lambda: [0, 0]))
        total = services[labels["service_name"]]
        services[labels["service_name"]] = [a + b for a, b in zip(total, sums(profile))]
    return windows


def expect_equal(directory: pathlib.Path, received: list, last: str, but_for: set) -> int:
    files = sorted((directory / "state/windows").glob("*.pb.gz"))
    expected = {}
    for path in files:
        name = path.name.removesuffix(".pb.gz")
        profile = read_window(path)
        if name <= last and name not in but_for and services_of(profile):
            expected[number(profile, "time_nanos")] = services_of(profile)
    arrived = windows_of(received)
    assert list(arrived) == sorted(arrived), f"not in order: {list(arrived)}"
    assert list(arrived) == sorted(expected), f"arrived {len(arrived)}, expected {len(expected)}"
    for when, services in expected.items():
        assert dict(arrived[when]) == services, f"{when}: {dict(arrived[when])}, expected {services}"
    return len(expected)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        engine = StandIn()
        shipper = Shipper(directory, engine.port)
        daemon = start_daemon(directory)
        work = subprocess.Popen([BUILD / "tests/workloads/shares", "120"], stdout=subprocess.DEVNULL)
        try:
            run(directory, engine, shipper)
        finally:
            sys.stderr.write(shipper.log() if (directory / "ship.log").exists() else "")
            for process in (work, daemon, shipper.process):
                if process is not None:
                    process.kill()
                    process.wait()


def arrived_after(engine: StandIn, count: int) -> bool:
    return len(windows_of(list(engine.received))) >= count


def expect_two_directories(directory: pathlib.Path) -> None:
    done = subprocess.run(
        [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", directory / "ship.toml",
         "--state-dir", directory / "ship", "--runtime-dir", f"{directory}/ship/"],
        capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "--runtime-dir is the same" in done.stderr, done


def run(directory: pathlib.Path, engine: StandIn, shipper: Shipper) -> None:
    expect_two_directories(directory)
    shipper.start()
    eventually(lambda: arrived_after(engine, 3), "three windows arrive")

    engine.stop()  # away
    time.sleep(4)
    before = len(windows_of(list(engine.received)))
    engine.start()
    eventually(lambda: arrived_after(engine, before + 4), "the windows of the outage arrive")

    engine.status = 503  # refuses for some time
    time.sleep(3)
    engine.status = None
    before = len(windows_of(list(engine.received)))
    eventually(lambda: arrived_after(engine, before + 3), "windows arrive after errors")

    engine.hangs = True  # takes a request, and profctl is killed
    assert engine.hung.wait(60)
    in_flight = shipper.state()["in_flight"]
    shipper.end(signal.SIGKILL)
    engine.hangs = False
    taken_of = {number(profile, "time_nanos") for _, profile in engine.received}
    before = len(taken_of)
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
    whole = [(labels, profile) for labels, profile in engine.received if number(profile, "time_nanos") != time_of]
    count = expect_equal(directory, whole, state["window"], {in_flight})
    assert not state["windows_dropped"] and not state["profiles_dropped"], state
    assert state["profiles_sent"] == len(whole), (len(whole), state)
    print(f"{count} windows, {len(engine.received)} profiles: each once, in order, with the totals of its window")


if __name__ == "__main__":
    main()
