#!/usr/bin/python3
"""The memory of a real profctl ship: half an hour of windows of 100 processes while its engine is away, engines that answer
with 1 GB, and windows of 300 processes for six endpoints at once.

    tests/ctl/ship/memory_test.py BUILD

A stand-in of the daemon serves the windows, which protoc encodes. Fails where windows or answers are kept in memory, for any
endpoint.
"""

import http.server
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from daemon_stand_in import DaemonStandIn, Texts, windows_at  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
LIMIT_KB = 32 * 10**6 // 1024  # a kB of /proc has 1024 bytes
WINDOWS = 30
SERVICES = 10
PROCESSES = 100
LARGE_WINDOWS = 4
PROCESSES_OF_LARGE = 300
ENDPOINTS = ["a", "b", "c", "d", "e", "f"]
STACKS = 40  # of a process
FRAMES = 20  # of a stack
FUNCTIONS = 2000


def eventually(condition, what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"in {seconds} s: not {what}")


def window_text(processes: int) -> str:
    """A window without its time, in protobuf's text form."""
    texts = Texts()
    kinds = [("samples", "count"), ("cpu", "nanoseconds")]
    lines = [f"sample_type {{ type: {texts.place(kind)} unit: {texts.place(unit)} }}" for kind, unit in kinds]
    place = 0
    for process in range(processes):
        pairs = {"comm": f"service-{process % SERVICES}", "unit": "-", "container": "-", "pod": "-", "user": "bob"}
        labels = " ".join(f"label {{ key: {texts.place(key)} str: {texts.place(text)} }}" for key, text in pairs.items())
        labels += f" label {{ key: {texts.place('pid')} num: {process + 1} }}"
        for _ in range(STACKS):
            ids = " ".join(f"location_id: {(place + frame * 7) % FUNCTIONS + 1}" for frame in range(FRAMES))
            lines.append(f"sample {{ {ids} value: 1 value: 10 {labels} }}")
            place += 13
    lines.append(f"mapping {{ id: 1 memory_limit: 4096 filename: {texts.place('/usr/bin/program')} has_functions: true }}")
    for one in range(1, FUNCTIONS + 1):
        name = texts.place(f"a_namespace::a_class_of_some_length::method_{one}(int, unsigned long)")
        source = texts.place(f"source_{one % 97}.cc")
        lines.append(f"location {{ id: {one} mapping_id: 1 address: {one} line {{ function_id: {one} }} }}")
        lines.append(f"function {{ id: {one} name: {name} system_name: {name} filename: {source} }}")
    lines.append(f"duration_nanos: {60 * 10**9} period: 10")
    lines.append(f"period_type {{ type: {texts.place('cpu')} unit: {texts.place('nanoseconds')} }}")
    lines.extend(f"string_table: {json.dumps(text)}" for text in texts.places)
    return "\n".join(lines)


def windows_of_minutes(count: int, processes: int) -> dict:
    """Files by name. The last one ended minutes ago, so that none waits for its turn."""
    first = int(time.time()) // 60 * 60 - (count + 4) * 60
    return windows_at(window_text(processes), [first + 60 * minute for minute in range(count)])


class Engine:
    """Answers as `form` says: "stored", "length" (1 GB that a header announces), "chunks" (1 GB without a length)."""

    def __init__(self):
        outer = self
        self.form = "stored"
        self.requests = 0
        self.is_started = False

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests += 1
                form = outer.form
                self.send_response(200 if form == "stored" else 500)
                self.send_header("Content-Type", "application/proto")
                if form == "chunks":
                    self.send_header("Transfer-Encoding", "chunked")
                else:
                    self.send_header("Content-Length", "0" if form == "stored" else str(1 << 30))
                self.end_headers()
                if form != "stored":
                    self.send_gigabyte(form == "chunks")

            def send_gigabyte(self, has_chunks: bool) -> None:
                self.close_connection = True
                block = b"x" * (1 << 20)
                if has_chunks:
                    block = b"100000\r\n" + block + b"\r\n"
                try:
                    for _ in range(1024):
                        self.wfile.write(block)
                except OSError:  # the client has read enough
                    pass

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        # Bound, and not listening: connections are refused.
        self.server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.server.server_bind()
        self.port = self.server.server_address[1]

    def start(self) -> None:
        if self.is_started:
            return
        self.is_started = True
        self.server.server_activate()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


class Shipper:
    def __init__(self, directory: pathlib.Path, port: int, endpoints: list):
        self.directory = directory
        (directory / "ship").mkdir()
        tables = [f'[[pyroscope]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}"\n' for name in endpoints]
        (directory / "ship.toml").write_text('host = "h1"\n' + "".join(tables))
        with (directory / "ship.log").open("w") as log:
            self.process = subprocess.Popen(
                [BUILD / "profctl", "--socket", directory / "profd.sock", "ship", "--config", directory / "ship.toml",
                 "--state-dir", directory / "ship", "--runtime-dir", directory / "run"], stderr=log)

    def peak_kb(self) -> int:
        """Of its whole life."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))

    def state(self, endpoint: str = "a") -> dict:
        path = self.directory / f"ship/{endpoint}.json"
        return json.loads(path.read_text()) if path.exists() else {"window": ""}

    def log(self) -> str:
        return (self.directory / "ship.log").read_text()


def run(engine: Engine, shipper: Shipper, windows: dict) -> None:
    eventually(lambda: "could not connect" in shipper.log(), "the engine is away")
    away = shipper.peak_kb()

    for form in ("length", "chunks"):
        engine.form = form
        engine.start()
        before = engine.requests
        eventually(lambda: engine.requests >= before + 2, f"the engine answers with 1 GB ({form})")
    large = shipper.peak_kb()

    engine.form = "stored"
    eventually(lambda: shipper.state()["window"] == max(windows), "the windows of the outage are sent", 240)
    all_sent = shipper.peak_kb()
    assert shipper.process.poll() is None, shipper.log()

    state = shipper.state()
    assert state["windows_sent"] == WINDOWS and state["windows_unknown"] == 0, state
    assert not state["windows_dropped"] and not state["profiles_dropped"], state
    assert state["profiles_sent"] == WINDOWS * SERVICES, state
    assert shipper.log().count("fails") == 1 and shipper.log().count("works again") == 1, shipper.log()
    print(f"peak of the resident memory: {away} kB while the engine is away, {large} kB after answers of 1 GB, {all_sent} kB "
          f"after {WINDOWS} windows of {PROCESSES} processes; the limit is {LIMIT_KB} kB")
    assert all_sent <= LIMIT_KB, all_sent


def run_with_many_endpoints(engine: Engine, shipper: Shipper, windows: dict) -> None:
    engine.start()
    eventually(lambda: all(shipper.state(name)["window"] == max(windows) for name in ENDPOINTS),
               "the windows are sent to all endpoints", 240)
    peak = shipper.peak_kb()
    for name in ENDPOINTS:
        state = shipper.state(name)
        assert state["windows_sent"] == LARGE_WINDOWS and not state["windows_dropped"], state
        assert state["profiles_sent"] >= LARGE_WINDOWS * SERVICES and not state["profiles_dropped"], state
    print(f"peak of the resident memory: {peak} kB with {len(ENDPOINTS)} endpoints and windows of {PROCESSES_OF_LARGE} "
          f"processes; the limit is {LIMIT_KB} kB")
    assert peak <= LIMIT_KB, peak


def check(windows: dict, endpoints: list, flow) -> None:
    with tempfile.TemporaryDirectory(prefix="profd-ship-memory-") as name:
        directory = pathlib.Path(name)
        DaemonStandIn(directory / "profd.sock", windows)
        engine = Engine()
        shipper = Shipper(directory, engine.port, endpoints)
        try:
            flow(engine, shipper, windows)
            shipper.process.send_signal(signal.SIGTERM)
            assert shipper.process.wait(60) == 0
        finally:
            sys.stderr.write(shipper.log())
            shipper.process.kill()
            shipper.process.wait()


def main() -> None:
    check(windows_of_minutes(WINDOWS, PROCESSES), ["a"], run)
    check(windows_of_minutes(LARGE_WINDOWS, PROCESSES_OF_LARGE), ENDPOINTS, run_with_many_endpoints)


main()
