"""What shipping costs: profctl ship beside OpenTelemetry's eBPF profiler, on a host of 100 processes. CPU time, and bytes
on the wire.

The peer is the program that OTEL_PROFILER names, or "ebpf-profiler" in PATH; where there is none, its column says so. It
sends each 5 s without symbols, and profctl each minute with names, so the bytes are those of a minute of each.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socketserver
import subprocess
import threading
import time

from continuous import FREQUENCY, PROCESSES, continuous, family_cpu, hundred, running, windows
from harness import Bench, cpu_seconds, row

MINUTES = 2  # that are measured
HANG_GUARD = 900


class Receiver:
    """Takes each request of HTTP/1.1, and counts all bytes."""

    def __init__(self):
        self.bytes = 0
        self.requests = 0
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handler(self) -> type:
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while size := self.read_request():
                    outer.bytes += size
                    outer.requests += 1
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n\r\n")

            def read_request(self) -> int:
                size = length = 0
                while True:
                    line = self.rfile.readline()
                    size += len(line)
                    if line in (b"\r\n", b""):
                        return size + len(self.rfile.read(length))
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])

        return Handler

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


# HTTP/2 (RFC 9113) as far as a gRPC client needs it that makes one kind of call.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
ACK = END_STREAM = 1
END_HEADERS = 4
# HPACK (RFC 7541) without a table of its own: ":status: 200", "content-type: application/grpc"; "grpc-status: 0".
ANSWER_HEADERS = b"\x88\x0f\x10\x10application/grpc"
ANSWER_TRAILERS = b"\x00\x0bgrpc-status\x010"
EMPTY_MESSAGE = bytes(5)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class GrpcReceiver(Receiver):
    """Answers each call of gRPC with an empty message."""

    def handler(self) -> type:
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                outer.bytes += len(self.rfile.read(len(PREFACE)))
                self.wfile.write(frame(SETTINGS, 0, 0))
                while len(header := self.rfile.read(9)) == 9:
                    payload = self.rfile.read(int.from_bytes(header[:3], "big"))
                    outer.bytes += len(header) + len(payload)
                    self.take(header[3], header[4], int.from_bytes(header[5:], "big") & 0x7fffffff, payload)

            def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
                if kind in (SETTINGS, PING) and not flags & ACK:
                    self.wfile.write(frame(kind, ACK, 0, payload if kind == PING else b""))
                if kind != DATA:
                    return
                if payload:
                    more = len(payload).to_bytes(4, "big")
                    self.wfile.write(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))
                if flags & END_STREAM:
                    outer.requests += 1
                    self.wfile.write(frame(HEADERS, END_HEADERS, stream, ANSWER_HEADERS) +
                                     frame(DATA, 0, stream, EMPTY_MESSAGE) +
                                     frame(HEADERS, END_HEADERS | END_STREAM, stream, ANSWER_TRAILERS))

        return Handler


def wait_until(condition) -> None:
    end = time.monotonic() + HANG_GUARD
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the bench waits in vain")
        time.sleep(0.2)


@contextlib.contextmanager
def shipper(bench: Bench, receiver: Receiver):
    directory = bench.directory / "shipper"
    (directory / "state").mkdir(parents=True)
    (directory / "ship.toml").write_text(
        f'host = "h1"\n[[pyroscope]]\nname = "a"\nurl = "http://127.0.0.1:{receiver.port}"\n')
    with (directory / "log").open("w") as log:
        process = subprocess.Popen([bench.profctl_binary, "ship", "--config", directory / "ship.toml", "--state-dir",
                                    directory / "state", "--runtime-dir", directory / "run"], env=bench.environment, stderr=log)
    try:
        yield process, directory / "state/a.json"
    finally:
        process.terminate()
        process.wait()


def position(state: pathlib.Path) -> str:
    return json.loads(state.read_text())["window"] if state.exists() else ""


def newest(bench: Bench) -> str:
    """The window that was written last."""
    return windows(bench)[-1].name.split(".")[0]


def ours(bench: Bench) -> dict:
    """Of a minute: one window of all processes."""
    receiver = Receiver()
    with continuous(bench) as daemon, running(bench, hundred()), shipper(bench, receiver) as (process, state):
        before = len(windows(bench))
        wait_until(lambda: len(windows(bench)) >= before + 2)  # a whole one with the programs' images
        target = newest(bench)
        wait_until(lambda: position(state) >= target)
        first = (cpu_seconds(process.pid), family_cpu(daemon.pid), receiver.bytes, receiver.requests)
        for _ in range(MINUTES):
            done = position(state)
            wait_until(lambda: position(state) > done)
        last = (cpu_seconds(process.pid), family_cpu(daemon.pid), receiver.bytes, receiver.requests)
    receiver.close()
    names = ("ship", "profd", "bytes", "requests")
    return {name: (after - before) / MINUTES for name, before, after in zip(names, first, last)}


def peer_program() -> str:
    return os.environ.get("OTEL_PROFILER") or shutil.which("ebpf-profiler") or ""


def theirs(bench: Bench, program: str) -> dict:
    receiver = GrpcReceiver()
    with running(bench, hundred()), (bench.directory / "otel.log").open("w") as log:
        process = subprocess.Popen([program, f"-collection-agent=127.0.0.1:{receiver.port}", "-disable-tls",
                                    f"-samples-per-second={FREQUENCY}"], stdout=log, stderr=log)
        try:
            wait_until(lambda: receiver.requests > 0 or process.poll() is not None)
            time.sleep(60)  # it reads each program once
            if process.poll() is not None:
                raise RuntimeError((bench.directory / "otel.log").read_text()[-2000:])
            before = (cpu_seconds(process.pid), receiver.bytes)
            time.sleep(60 * MINUTES)
            after = (cpu_seconds(process.pid), receiver.bytes)
        finally:
            process.terminate()
            process.wait()
    receiver.close()
    return {"cpu": (after[0] - before[0]) / MINUTES, "bytes": (after[1] - before[1]) / MINUTES}


def shipping(bench: Bench) -> None:
    program = peer_program()
    figures = ours(bench)
    if program:
        other = theirs(bench, program)
        cpu, size = f'{other["cpu"]:.4f}', f'{other["bytes"] / 1e3:.0f}'
    else:
        other = None
        cpu = size = "not installed"
        print("OpenTelemetry's eBPF profiler is not installed, so nothing stands beside these rows: set OTEL_PROFILER to its "
              "program", flush=True)
    total = figures["ship"] + figures["profd"]
    row(f"ship, a window of {PROCESSES} processes, CPU ms", f'{figures["ship"] * 1e3:.1f}', "-", "<= 30")
    row("  with profd, CPU seconds a minute (OpenTelemetry)", f"{total:.4f}", cpu, "<= 0.05")
    row("  KB a minute on the wire (OpenTelemetry)", f'{figures["bytes"] / 1e3:.0f}', size)
    row("  requests of a window", f'{figures["requests"]:.0f}', "-")
    if other:
        row("  CPU and bytes, ratio to OpenTelemetry's",
            f'{total / other["cpu"]:.2f} and {figures["bytes"] / other["bytes"]:.2f}', "1")
