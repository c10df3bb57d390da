"""Real engines as processes on 127.0.0.1, each in a directory of its own, and what their query APIs say of a service."""

import base64
import collections
import datetime
import gzip
import json
import os
import pathlib
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ctl/ship"))
from stand_in import decode, number, numbers  # noqa: E402

NANOSECONDS = 10**9
# Pyroscope's metastore asks for this port, and has no flag for another one that suffices.
PYROSCOPE_GRPC_PORT = 9095


class Count:
    """Values of one type: by the function that ran, and all functions of their stacks."""

    def __init__(self):
        self.by_function = collections.Counter()
        self.functions = set()

    def add(self, frames: list, value: int) -> None:
        """`frames`: names, the innermost first."""
        if value != 0:
            self.by_function[frames[0] if frames else ""] += value
            self.functions.update(frames)

    def total(self) -> int:
        return sum(self.by_function.values())

    def divided_by(self, period: int) -> "Count":
        divided = Count()
        divided.functions = self.functions
        for name, value in self.by_function.items():
            assert value % period == 0, f"{name} has {value}, which is no multiple of {period}"
            divided.by_function[name] = value // period
        return divided


def frames_by_location(profile: dict) -> dict:
    texts = profile["string_table"]
    names = {number(one, "id"): texts[number(one, "name")] for one in profile.get("function", [])}
    return {number(one, "id"): [names.get(number(line, "function_id"), "") for line in one.get("line", [])]
            for one in profile.get("location", [])}


def frames_of(sample: dict, by_location: dict) -> list:
    return [name for place in numbers(sample, "location_id") for name in by_location[place]]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def selector(labels: dict) -> str:
    return "{" + ",".join(f"{name}={quoted(value)}" for name, value in labels.items()) + "}"


class Engine:
    """`kind` is its table in ship.toml."""

    kind = ""
    counts_are_times = False  # it answers a query of samples with samples x period

    def __init__(self, program: pathlib.Path, directory: pathlib.Path):
        self.program = program
        self.directory = directory
        self.port = free_port()
        directory.mkdir()
        # The proxy of the environment is for downloads.
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with (directory / "log").open("w") as log:
            self.process = subprocess.Popen([program, *self.flags()], cwd=directory, env=environment, stdout=log,
                                            stderr=subprocess.STDOUT)

    def flags(self) -> list:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def count(self, kind: str, labels: dict, begin_ns: int, end_ns: int) -> Count:
        """`kind`: "samples:count", for example."""
        raise NotImplementedError

    def values_of(self, label: str, begin_ns: int, end_ns: int) -> set:
        raise NotImplementedError

    def get(self, path: str, **query) -> dict:
        return self.open(path + "?" + urllib.parse.urlencode(query), None)

    def open(self, target: str, body) -> dict:
        """{} where it has nothing of that time yet."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{target}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise AssertionError(f"{self.kind} answered {error.code} to {target}: {error.read()[:500]!r}") from error

    def is_open(self, path: str) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status == 200
        except OSError:  # an HTTPError too
            return False

    def check_running(self) -> None:
        if self.process.poll() is not None:
            sys.exit(f"{self.kind} ended with {self.process.returncode}:\n" + (self.directory / "log").read_text()[-4000:])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def rfc3339(time_ns: int) -> str:
    time = datetime.datetime.fromtimestamp(time_ns // NANOSECONDS, datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


class Parca(Engine):
    kind = "parca"
    counts_are_times = True

    def flags(self) -> list:
        (self.directory / "data").mkdir()
        (self.directory / "parca.yaml").write_text(
            f'object_storage:\n  bucket:\n    type: "FILESYSTEM"\n    config:\n      directory: "{self.directory}/data"\n')
        # All names are in the windows, so it needs no debuginfod: that of a closed port is none.
        return [f"--config-path={self.directory}/parca.yaml", f"--http-address=127.0.0.1:{self.port}",
                f"--storage-path={self.directory}/data", f"--debuginfo-cache-dir={self.directory}/cache",
                "--debuginfod-upstream-servers=127.0.0.1:9"]

    def is_ready(self) -> bool:
        return self.is_open("/metrics")

    def count(self, kind: str, labels: dict, begin_ns: int, end_ns: int) -> Count:
        answer = self.get("/api/profiles/query", mode="MODE_MERGE", report_type="REPORT_TYPE_PPROF", **{
            "merge.query": f"process_cpu:{kind}:cpu:nanoseconds:delta" + selector(labels),
            "merge.start": rfc3339(begin_ns), "merge.end": rfc3339(end_ns)})
        count = Count()
        packed = base64.b64decode(answer.get("pprof", ""))
        if not packed:
            return count
        profile = decode("perftools.profiles.Profile", "profile.proto", gzip.decompress(packed))
        by_location = frames_by_location(profile)
        for sample in profile.get("sample", []):
            count.add(frames_of(sample, by_location), numbers(sample, "value")[0])
        return count

    def values_of(self, label: str, begin_ns: int, end_ns: int) -> set:
        answer = self.get(f"/api/profiles/labels/{label}/values", start=rfc3339(begin_ns), end=rfc3339(end_ns))
        return set(answer.get("labelValues", []))


class Pyroscope(Engine):
    kind = "pyroscope"

    def flags(self) -> list:
        if not is_free(PYROSCOPE_GRPC_PORT):
            sys.exit(f"port {PYROSCOPE_GRPC_PORT} of 127.0.0.1, which Pyroscope needs, is in use")
        rings = [f"-{part}.ring.instance-addr=127.0.0.1"
                 for part in ("distributor", "compactor", "overrides-exporter", "query-scheduler")]
        lifecyclers = [f"-{part}.lifecycler.addr=127.0.0.1" for part in ("segment-writer", "ingester")]
        return ["-server.http-listen-address=127.0.0.1", f"-server.http-listen-port={self.port}",
                "-server.grpc-listen-address=127.0.0.1", "-memberlist.bind-addr=127.0.0.1",
                "-memberlist.advertise-addr=127.0.0.1", f"-memberlist.bind-port={free_port()}", *rings, *lifecyclers,
                "-query-frontend.instance-addr=127.0.0.1", "-store-gateway.sharding-ring.instance-addr=127.0.0.1",
                "-usage-stats.enabled=false", "-self-profiling.disable-push", "-tracing.enabled=false",
                "-architecture.storage=v2", f"-metastore.data-dir={self.directory}/ms",
                f"-metastore.raft.dir={self.directory}/raft", f"-storage.filesystem.dir={self.directory}/fs"]

    def is_ready(self) -> bool:
        return self.is_open("/ready")

    def count(self, kind: str, labels: dict, begin_ns: int, end_ns: int) -> Count:
        profile = self.open("/querier.v1.QuerierService/SelectMergeProfile", {
            "profileTypeID": f"process_cpu:{kind}:cpu:nanoseconds", "labelSelector": selector(labels),
            "start": begin_ns // 10**6, "end": end_ns // 10**6})
        return count_of_json(profile)

    def values_of(self, label: str, begin_ns: int, end_ns: int) -> set:
        answer = self.open("/querier.v1.QuerierService/LabelValues",
                           {"name": label, "start": begin_ns // 10**6, "end": end_ns // 10**6})
        return set(answer.get("names", []))


def count_of_json(profile: dict) -> Count:
    """profile.proto in protobuf's JSON: 64-bit numbers are texts, and a 0 is absent."""
    texts = profile.get("stringTable", [])
    names = {one["id"]: texts[int(one.get("name", 0))] for one in profile.get("function", [])}
    frames = {one["id"]: [names.get(line.get("functionId"), "") for line in one.get("line", [])]
              for one in profile.get("location", [])}
    count = Count()
    for sample in profile.get("sample", []):
        count.add([name for place in sample.get("locationId", []) for name in frames[place]], int(sample["value"][0]))
    return count
