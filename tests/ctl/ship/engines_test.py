#!/usr/bin/python3
"""profctl ship of a real profd with windows of a second, to strict stand-ins of Parca and of a receiver of OTLP at once.

    tests/ctl/ship/engines_test.py BUILD

The samples and CPU time that arrive at each are, by window and all labels of a series, those of the window's file as protoc
decodes it; each window arrives once, in order. One engine that is away delays the other by nothing. Each request has the
tenant and the credentials of the configuration. An endpoint that takes connections and never answers delays none beside it.
"""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from otlp_stand_in import OtlpStandIn  # noqa: E402
from parca_stand_in import ParcaStandIn  # noqa: E402
from ship_test import (BASIC, BUILD, PARTS_NS, PASSWORD, TENANT, USERNAME, arrived_after, end_all,  # noqa: E402
                       eventually, expect_equal, expect_workloads, read_window, seconds_of, start_daemon, start_workloads)
from stand_in import StandIn, number  # noqa: E402

TOKEN = "a.token-0123456789"
RULE = 'host = "h1"\n[[service]]\ncomm = "shares"\nservice_name = "work-{comm}"\nlabels = { team = "t" }\n'


def start_shipper(directory: pathlib.Path, engines: dict) -> subprocess.Popen:
    (directory / "ship").mkdir()
    (directory / "token").write_text(TOKEN + "\n")
    (directory / "password").write_text(PASSWORD + "\n")
    credentials = {"parca": f'bearer_token_file = "{directory}/token"\n',
                   "otlp": f'tenant = "{TENANT}"\n'
                           f'basic_auth = {{ username = "{USERNAME}", password_file = "{directory}/password" }}\n'}
    endpoints = "".join(f'[[{kind}]]\nname = "{kind}"\nurl = "http://127.0.0.1:{engine.port}"\n{credentials[kind]}'
                        for kind, engine in engines.items())
    (directory / "ship.toml").write_text(RULE + endpoints)
    return subprocess.Popen(
        [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", directory / "ship.toml",
         "--state-dir", directory / "ship", "--runtime-dir", directory / "run"],
        stderr=(directory / "ship.log").open("w"))


def state_of(directory: pathlib.Path, kind: str) -> dict:
    return json.loads((directory / f"ship/{kind}.json").read_text())


def run(directory: pathlib.Path, engines: dict, shipper: subprocess.Popen) -> None:
    parca, otlp = engines["parca"], engines["otlp"]
    for engine in engines.values():
        eventually(lambda: arrived_after(engine, 3), "three windows arrive")

    parca.stop()  # away
    before = len(seconds_of(list(otlp.received)))
    eventually(lambda: arrived_after(otlp, before + 4), "the other engine gets its windows")
    before = len(seconds_of(list(parca.received)))
    parca.start()
    eventually(lambda: arrived_after(parca, before + 4), "the windows of the outage arrive")

    otlp.status = 503
    time.sleep(2)
    otlp.status = None
    before = len(seconds_of(list(otlp.received)))
    eventually(lambda: arrived_after(otlp, before + 3), "windows arrive after errors")

    shipper.send_signal(signal.SIGTERM)
    assert shipper.wait(60) == 0
    for kind, engine in engines.items():
        assert not engine.refused, (kind, engine.refused)
        state = state_of(directory, kind)
        assert state["in_flight"] == "" and state["windows_unknown"] == 0, (kind, state)
        assert not state["windows_dropped"] and not state["profiles_dropped"], (kind, state)
        assert state["profiles_sent"] == len(engine.received), (kind, state)
        count = expect_equal(directory, engine.received, state["window"], set())
        expect_workloads(engine.received)
        print(f"{kind}: {count} windows, {len(engine.received)} profiles: each once, in order, with the totals of its window")


def expect_rejection(directory: pathlib.Path, otlp: OtlpStandIn) -> None:
    """A partial success is a refused profile."""
    otlp.rejects = True
    with (directory / "ship.log").open("a") as log:
        shipper = subprocess.Popen(
            [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", directory / "ship.toml",
             "--state-dir", directory / "ship", "--runtime-dir", directory / "run"], stderr=log)
        try:
            eventually(lambda: "rejected 1 profiles of a request: wrong" in (directory / "ship.log").read_text(),
                       "a rejection is logged")
            eventually(lambda: state_of(directory, "otlp")["profiles_dropped"] == {"refused": 1}, "a rejection is counted")
        finally:
            shipper.send_signal(signal.SIGTERM)
            assert shipper.wait(60) == 0


class HangingServer:
    """Takes connections and what they send, and answers nothing."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            self.connections.append(self.listener.accept()[0])


def status_text(directory: pathlib.Path, home: pathlib.Path) -> str:
    return subprocess.run([BUILD / "profctl", "--socket", directory / "profd.sock", "status", "--runtime-dir", home / "run"],
                          capture_output=True, text=True, check=False, timeout=60).stdout


def expect_no_delay(directory: pathlib.Path) -> None:
    """A shipper, whose first endpoint never answers, sends all windows to the second. The first waits 30 s for each answer, so
    that the time is enough for five windows in turn, and not for these.
    """
    hanging, healthy = HangingServer(), StandIn()
    home = directory / "beside"
    (home / "ship").mkdir(parents=True)
    (home / "ship.toml").write_text(RULE + f'[[pyroscope]]\nname = "hanging"\nurl = "http://127.0.0.1:{hanging.port}"\n'
                                    f'[[pyroscope]]\nname = "healthy"\nurl = "http://127.0.0.1:{healthy.port}"\n')
    with (home / "ship.log").open("w") as log:
        shipper = subprocess.Popen(
            [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", home / "ship.toml",
             "--state-dir", home / "ship", "--runtime-dir", home / "run"], stderr=log)
    try:
        eventually(lambda: hanging.connections, "the hanging endpoint has a connection")
        eventually(lambda: "waits for an answer since 2" in status_text(directory, home), "status shows that it is slow")
        eventually(lambda: arrived_after(healthy, 10), "the healthy endpoint gets its windows", 150)
        assert shipper.poll() is None, (home / "ship.log").read_text()
    finally:
        shipper.kill()
        shipper.wait()
        sys.stderr.write((home / "ship.log").read_text())
    assert state_of(home, "hanging")["windows_sent"] == 0, state_of(home, "hanging")
    assert not healthy.refused, healthy.refused
    state = state_of(home, "healthy")
    last = number(read_window(directory / f"state/windows/{state['window']}.pb.gz"), "time_nanos")
    done = [(labels, profile) for labels, profile in healthy.received if number(profile, "time_nanos") < last + PARTS_NS]
    count = expect_equal(directory, done, state["window"], set())
    print(f"{count} windows arrive beside an endpoint that never answers")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        engines = {"parca": ParcaStandIn(authorization=f"Bearer {TOKEN}"),
                   "otlp": OtlpStandIn(tenant=TENANT, authorization=BASIC)}
        daemon = start_daemon(directory)
        work = start_workloads(directory)
        shipper = None
        try:
            expect_no_delay(directory)
            shipper = start_shipper(directory, engines)
            run(directory, engines, shipper)
            expect_rejection(directory, engines["otlp"])
        finally:
            sys.stderr.write((directory / "ship.log").read_text() if (directory / "ship.log").exists() else "")
            end_all([*work, daemon, shipper])


main()
