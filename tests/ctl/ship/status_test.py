#!/usr/bin/python3
"""What an operator sees of profctl ship: status, /metrics, doctor and log, of a real profd with windows of a second.

    tests/ctl/ship/status_test.py BUILD
"""

import collections
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stand_in import StandIn  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()


def eventually(condition, what: str, seconds: float = 90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    raise AssertionError(f"in {seconds} s: not {what}")


def start_daemon(directory: pathlib.Path) -> subprocess.Popen:
    config = directory / "profd.toml"
    config.write_text('[continuous]\nenabled = true\nwindow = "1s"\nfrequency = 199\n')
    return subprocess.Popen([BUILD / "profd", "--config", config, "--socket", directory / "profd.sock",
                             "--state-dir", directory / "state"], stderr=(directory / "profd.log").open("a"))


class Shipper:
    def __init__(self, directory: pathlib.Path, engine: StandIn):
        self.directory = directory
        (directory / "ship").mkdir()
        self.config = directory / "ship.toml"
        self.configure(engine, 0)
        self.process = None

    def configure(self, engine: StandIn, port: int) -> None:
        self.url = f"http://127.0.0.1:{engine.port}"
        self.config.write_text(f'[[pyroscope]]\nname = "a"\nurl = "{self.url}"\n'
                               f'[metrics]\nlisten = "127.0.0.1:{port}"\n')

    def start(self) -> None:
        # Each process has another port, which its first line has.
        self.process = subprocess.Popen(
            [BUILD / "profctl", "--socket", self.directory / "profd.sock", "ship", "--config", self.config,
             "--state-dir", self.directory / "ship", "--runtime-dir", self.directory / "run"],
            stderr=(self.directory / "ship.log").open("w"))

    def end(self, how: int) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)

    def log(self) -> str:
        return (self.directory / "ship.log").read_text()

    def profctl(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([BUILD / "profctl", "--socket", self.directory / "profd.sock", *arguments,
                               "--runtime-dir", self.directory / "run"], capture_output=True, text=True, check=False,
                              timeout=120)

    def status(self) -> dict:
        done = self.profctl("status", "--json")
        return json.loads(done.stdout).get("ship", {}) if done.returncode == 0 else {}

    def endpoint(self) -> dict:
        known = self.status().get("endpoints", [])
        return known[0] if known else collections.defaultdict(str, windows_sent=0)

    def windows_stored(self) -> int:
        return json.loads((self.directory / "ship/a.json").read_text())["windows_sent"]

    def doctor(self) -> dict:
        done = self.profctl("doctor", "--json", "--ship-config", self.config)
        return {point["name"]: point for point in json.loads(done.stdout)["points"]}

    def metrics(self) -> dict:
        """Values by name and labels."""
        url = eventually(lambda: re.search(r"http://127\.0\.0\.1:\d+/metrics", self.log()), "a port is logged")
        with urllib.request.urlopen(url[0], timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", answer.headers
            text = answer.read().decode()
        return parse_strictly(text)


def parse_strictly(text: str) -> dict:
    """As promtool does: a family has its help, its type and its series once, together, and its name says its type."""
    assert text.endswith("\n")
    for mark in ("HELP", "TYPE"):
        names = re.findall(rf"^# {mark} (\S+)", text, re.MULTILINE)
        assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    family, ended = None, set()
    for line in text.splitlines():
        name = line.split()[2] if line.startswith("#") else re.match(r"[a-z_0-9]+", line)[0]
        if name != family:
            assert name not in ended, f"{name} stands at two places"
            ended.add(family)
            family = name
    values = {}
    for one in text_string_to_metric_families(text):
        assert one.documentation.endswith("."), one.name
        for sample in one.samples:
            assert (one.type == "counter") == sample.name.endswith("_total"), sample
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in values, key
            values[key] = sample.value
    return values


def of_a(name: str, **labels) -> tuple:
    return (f"profd_ship_{name}", *sorted({"endpoint": "a", **labels}.items()))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="profd-ship-status-") as name:
        directory = pathlib.Path(name)
        engine = StandIn()
        shipper = Shipper(directory, engine)
        daemon = start_daemon(directory)
        work = subprocess.Popen([BUILD / "tests/workloads/shares", "600"], stdout=subprocess.DEVNULL)
        try:
            eventually((directory / "profd.sock").exists, "profd listens")
            shipper.start()
            works(shipper)
            in_use(shipper)
            refuses(engine, shipper)
            without_daemon(daemon, shipper)
            daemon = start_daemon(directory)
            eventually(lambda: shipper.metrics()[("profd_up",)] == 1, "profd answers again")
            ends(engine, shipper)
            print("status, /metrics, doctor and log say what profctl ship does")
        finally:
            sys.stderr.write(shipper.log() if (directory / "ship.log").exists() else "")
            for process in (work, daemon, shipper.process):
                process.kill()
                process.wait()


def works(shipper: Shipper) -> None:
    eventually(lambda: shipper.endpoint()["windows_sent"] >= 2, "two windows are sent")
    assert shipper.status()["running"] is True, shipper.status()
    assert shipper.profctl("ship", "--is-running").returncode == 0
    endpoint = shipper.endpoint()
    assert endpoint["name"] == "a" and endpoint["kind"] == "pyroscope" and endpoint["failing"] is False, endpoint
    assert 0 <= endpoint["lag_seconds"] < 120, endpoint
    assert endpoint["profiles_sent"] > 0 and endpoint["bytes_sent"] > 0 and not endpoint["bytes_dropped"], endpoint
    text = shipper.profctl("status").stdout
    assert f"\nship       running, 1 endpoint\nendpoint   a (pyroscope, {shipper.url}): done up to the window of 2" in text, text
    assert f"endpoint a: sends the windows to {shipper.url} as the host " in shipper.log(), shipper.log()
    values = shipper.metrics()
    assert values[("profd_up",)] == 1 and values[("profd_samples_taken_total",)] > 0
    assert values[of_a("windows_sent_total")] >= 2 and values[of_a("failing")] == 0
    assert values[of_a("profiles_dropped_total", reason="refused")] == 0
    assert 0 <= values[of_a("lag_seconds")] < 120
    points = shipper.doctor()
    assert points["ship"]["state"] == "ok", points["ship"]
    assert points["ship/a"]["state"] == "ok" and "takes requests" in points["ship/a"]["message"], points["ship/a"]


def in_use(shipper: Shipper) -> None:
    """A second process, whose reports nobody could read, says what to do."""
    directory = shipper.directory / "second"
    directory.mkdir()
    config = directory / "ship.toml"
    config.write_text('[[pyroscope]]\nname = "b"\nurl = "http://127.0.0.1:9"\n')
    log = directory / "log"
    second = subprocess.Popen(
        [BUILD / "profctl", "--socket", shipper.directory / "profd.sock", "ship", "--config", config, "--state-dir", directory,
         "--runtime-dir", shipper.directory / "run"], stderr=log.open("w"))
    try:
        eventually(lambda: "end that one, or give another --runtime-dir" in log.read_text(), "the hint is logged")
    finally:
        second.kill()
        second.wait()


def refuses(engine: StandIn, shipper: Shipper) -> None:
    engine.status = 401
    eventually(lambda: shipper.endpoint()["failing"], "the endpoint fails")
    first = shipper.endpoint()
    assert "401" in first["last_error"] and first["failing_since"] <= first["last_error_at"], first
    eventually(lambda: shipper.endpoint()["last_error_at"] > first["last_error_at"], "it is tried again")
    assert shipper.endpoint()["failing_since"] == first["failing_since"], shipper.endpoint()
    assert shipper.log().count("endpoint a: fails") == 1, shipper.log()
    assert f"endpoint a: fails at {shipper.url}: the endpoint answered 401" in shipper.log(), shipper.log()
    assert "fails since 2" in shipper.profctl("status").stdout
    assert shipper.metrics()[of_a("failing")] == 1
    points = shipper.doctor()
    assert points["ship"]["state"] == "ok" and points["ship"]["message"] == "profctl ship runs", points["ship"]
    assert points["ship/a"]["state"] == "fix" and "refuses the cred" in points["ship/a"]["message"], points["ship/a"]
    assert points["ship/a"]["message"].count("answered 401") == 1, points["ship/a"]
    assert "; profctl ship fails there since 2" in points["ship/a"]["message"], points["ship/a"]
    engine.status = None
    eventually(lambda: shipper.endpoint()["failing"] is False, "the endpoint works again", 400)
    assert shipper.log().count("endpoint a: works again") == 1, shipper.log()
    assert not engine.refused, engine.refused


def without_daemon(daemon: subprocess.Popen, shipper: Shipper) -> None:
    sent = shipper.metrics()[of_a("windows_sent_total")]
    daemon.kill()
    daemon.wait()
    values = eventually(lambda: metrics_without_daemon(shipper), "profd is down")
    assert values[of_a("windows_sent_total")] >= sent and ("profd_samples_taken_total",) not in values, values
    assert shipper.profctl("status").returncode == 3


def metrics_without_daemon(shipper: Shipper) -> dict:
    values = shipper.metrics()
    return values if values[("profd_up",)] == 0 else {}


def ends(engine: StandIn, shipper: Shipper) -> None:
    shipper.end(signal.SIGKILL)
    status = eventually(shipper.status, "profd answers")
    assert status["running"] is False and status["endpoints"][0]["windows_sent"] > 0, status
    assert shipper.profctl("ship", "--is-running").returncode == 1
    assert "\nship       not running; its last status is of 2" in shipper.profctl("status").stdout
    points = shipper.doctor()
    assert points["ship"]["state"] == "fix" and "does not run" in points["ship"]["message"], points["ship"]
    stored = shipper.windows_stored()
    shipper.start()
    eventually(lambda: shipper.status()["running"], "it runs again")
    # Counters of Prometheus begin at 0 with the process; those of the file go on.
    counted = shipper.metrics()[of_a("windows_sent_total")]
    assert shipper.end(signal.SIGTERM) == 0
    assert stored > 0 and counted <= shipper.windows_stored() - stored, (stored, counted, shipper.windows_stored())
    assert shipper.status()["running"] is False
    shipper.configure(engine, engine.port)
    stored = shipper.windows_stored()
    shipper.start()
    eventually(lambda: shipper.windows_stored() > stored, "windows are sent though the port of /metrics is taken")
    assert shipper.end(signal.SIGTERM) == 0
    assert "could not listen on 127.0.0.1" in shipper.log() and "listen of [metrics]" in shipper.log(), shipper.log()


main()
