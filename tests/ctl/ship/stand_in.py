"""A Pyroscope that keeps what it is sent, and refuses what Pyroscope's validation refuses by default, and what it would cut
or drop without an error. protoc decodes.

    python3 stand_in.py DIRECTORY

As a program, it writes its port into DIRECTORY/port, and a line "refused: why" for each refusal.
"""

import gzip
import http.server
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROTOS = ("-I", str(ROOT / "tests/ctl/ship"), "-I", str(ROOT / "tests/formats/profile"))
HOUR_NS = 3600 * 10**9
# Pyroscope cuts what is over these limits of it: a stack, and a text.
MAX_FRAMES = 1000
MAX_TEXT_BYTES = 65535
MAX_SAMPLE_LABELS = 100
# Indexes into the string table, by the message that has them.
TEXT_FIELDS = {"sample_type": ("type", "unit"), "period_type": ("type", "unit"), "mapping": ("filename", "build_id"),
               "function": ("name", "system_name", "filename")}
PROFILE_TEXT_FIELDS = ("drop_frames", "keep_frames", "comment", "default_sample_type", "doc_url")
LABEL_TEXT_FIELDS = ("key", "str", "num_unit")
TOKEN = re.compile(r'\s*(?:(\w+)\s*(?::\s*("(?:\\.|[^"\\])*"|[-\w.]+)|\{)|(\}))')
ESCAPE = re.compile(rb"\\([0-7]{3}|.)")


def unescape(text: str) -> str:
    def byte(match) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else {b"n": b"\n", b"t": b"\t", b"r": b"\r"}.get(code, code)
    return ESCAPE.sub(byte, text.encode()).decode()


def parse(text: str) -> dict:
    """protobuf's text form as lists by field."""
    stack, place = [{}], 0
    while match := TOKEN.match(text, place):
        place = match.end()
        name, value, end = match.groups()
        if end:
            stack.pop()
        elif value is None:
            stack[-1].setdefault(name, []).append({})
            stack.append(stack[-1][name][-1])
        else:
            known = unescape(value[1:-1]) if value[0] == '"' else value
            stack[-1].setdefault(name, []).append(known)
    assert not text[place:].strip(), text[place:place + 80]
    return stack[0]


def decode(message: str, proto: str, data: bytes) -> dict:
    done = subprocess.run(["protoc", *PROTOS, f"--decode={message}", proto], input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise Refused(f"no {message}: {done.stderr.decode(errors='replace')}")
    return parse(done.stdout.decode())


class Refused(Exception):
    pass


def require(is_so: bool, what: str) -> None:
    if not is_so:
        raise Refused(what)


def number(message: dict, field: str) -> int:
    return int(message.get(field, ["0"])[0])


def numbers(message: dict, field: str) -> list:
    return [int(one) for one in message.get(field, [])]


def check_known(message, where: str = "request") -> None:
    """protoc prints a field that the schema does not have by its number: what profd writes for itself, for example."""
    for field, values in message.items():
        require(not field.isdigit(), f"unknown field {field} of {where}")
        for value in values:
            if isinstance(value, dict):
                check_known(value, field)


def check_texts(profile: dict) -> None:
    texts = profile.get("string_table", [])
    require(bool(texts) and texts[0] == "", "string 0")
    places = [(field, numbers(profile, field)) for field in PROFILE_TEXT_FIELDS]
    for table, fields in TEXT_FIELDS.items():
        places.extend((table, numbers(entry, field)) for entry in profile.get(table, []) for field in fields)
    for sample in profile.get("sample", []):
        places.extend(("label", numbers(label, field)) for label in sample.get("label", []) for field in LABEL_TEXT_FIELDS)
    for where, indexes in places:
        require(all(0 <= index < len(texts) for index in indexes), f"index of a text of {where}")


def ids_of(profile: dict, table: str) -> set:
    ids = [number(entry, "id") for entry in profile.get(table, [])]
    require(0 not in ids, f"{table} id 0")
    require(len(set(ids)) == len(ids), f"an id of {table} is there twice")
    return set(ids)


def check_tables(profile: dict) -> None:
    """That each index and id of the profile has its entry."""
    check_texts(profile)
    mappings, functions, locations = (ids_of(profile, table) for table in ("mapping", "function", "location"))
    mappings.add(0)  # none
    for location in profile.get("location", []):
        require(number(location, "mapping_id") in mappings, "mapping of a location")
        lines = location.get("line", [])
        require(bool(lines), "a location has no line")
        require(all(number(line, "function_id") in functions for line in lines), "function of a location")
    for sample in profile.get("sample", []):
        require(all(one in locations for one in numbers(sample, "location_id")), "locations of a sample")


def check_labels(series: dict) -> dict:
    pairs = [(pair.get("name", [""])[0], pair.get("value", [""])[0]) for pair in series.get("labels", [])]
    labels = dict(pairs)
    require(len(labels) == len(pairs), "duplicate label names")
    require(0 < len(pairs) <= 30, "number of labels")
    for name, value in pairs:
        require(0 < len(name.encode()) <= 1024 and len(value.encode()) <= 2048, f"length of label {name}")
    require(labels.get("__name__", "") != "" and labels.get("service_name", "") != "", "required labels")
    return labels


def check_profile(profile: dict, size: int) -> None:
    check_tables(profile)
    texts = profile["string_table"]
    require(all(len(text.encode()) <= MAX_TEXT_BYTES for text in texts), "length of a text")
    types = profile.get("sample_type", [])
    require(bool(types) and all("-" not in texts[number(one, "type")] for one in types), "sample types")
    samples = profile.get("sample", [])
    require(0 < len(samples) <= 16000, "number of samples")
    require(size <= 4 << 20, "size of the profile")
    for sample in samples:
        values = numbers(sample, "value")
        require(len(values) == len(types) and any(values) and min(values) >= 0, "values of a sample")
        require(len(numbers(sample, "location_id")) <= MAX_FRAMES, "frames of a stack")
        require(len(sample.get("label", [])) <= MAX_SAMPLE_LABELS, "number of labels of a sample")
        for label in sample.get("label", []):
            require(texts[number(label, "key")] == "thread", "a label of a sample makes a series")
    age = time.time_ns() - number(profile, "time_nanos")
    require(-HOUR_NS / 6 <= age <= HOUR_NS, "time of the profile")


class StandIn:
    """`received` has (labels, profile) in the order of arrival. `tenant` and `authorization` are what the headers
    X-Scope-OrgID and Authorization have to be; "": there is to be none.
    """

    content_type = "application/proto"  # of an answer 200
    error_type = "application/json"

    def __init__(self, port: int = 0, tenant: str = "", authorization: str = ""):
        self.received = []
        self.refused = []
        self.tenant = tenant
        self.authorization = authorization
        self.series_times = set()  # the labels and time of each profile
        self.status = None       # an error for each request
        self.hangs = False       # takes requests, and does not answer
        self.hung = threading.Event()
        self.server = None
        self.reserved = None     # a socket that keeps the port while nobody listens there
        self.closes = False      # each connection, after the next answer
        self.port = port
        self.start()

    def start(self) -> None:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                if outer.hangs:
                    outer.hung.set()
                    time.sleep(60)
                    return
                self.answer(*outer.take(self.path, self.headers, body))

            def answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", outer.content_type if status == 200 else outer.error_type)
                if status == 429:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", str(len(text)))
                if outer.closes:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            timeout = 0.3  # of handle_request()
            is_idle = False

            def handle_timeout(self):
                self.is_idle = True

        self.closes = False
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_port
        if self.reserved is not None:
            self.reserved.close()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Connections are refused. A request on an open one is answered, so that none is lost on its way."""
        self.closes = True
        self.server.shutdown()
        # A connection that waits to be accepted would be reset, and its request might have arrived.
        while not self.server.is_idle:
            self.server.handle_request()
        self.server.server_close()
        # Connections are refused there all the same, since it does not listen; no other program gets the port.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(("127.0.0.1", self.port))

    def refuse(self, problem: Exception) -> None:
        self.refused.append(str(problem))
        print(f"refused: {problem}", file=sys.stderr, flush=True)

    def check_headers(self, headers) -> None:
        for name, value in (("X-Scope-OrgID", self.tenant), ("Authorization", self.authorization)):
            require(headers.get_all(name, []) == ([value] if value else []), f"header {name}")

    def check_time(self, labels: dict, profile: dict) -> None:
        """Pyroscope stores a second profile of a series and time, and drops one of both when it compacts its blocks."""
        key = (frozenset(labels.items()), number(profile, "time_nanos"))
        require(key not in self.series_times, f"a second profile of {labels} at {key[1]}")
        self.series_times.add(key)

    def take(self, path: str, headers, body: bytes) -> tuple:
        if self.status is not None:
            return self.status, '{"code":"unavailable","message":"as the test wants"}'
        try:
            require(path == "/push.v1.PusherService/Push", f"path {path}")
            require(headers["Content-Type"] == "application/proto", "content type")
            require(headers.get("Connect-Protocol-Version", "1") == "1", "version of the protocol")
            self.check_headers(headers)
            request = decode("push.v1.PushRequest", "push.proto", body)
            check_known(request)
            series = request.get("series", [])
            if not series:
                return 400, '{"code":"invalid_argument","message":"no profiles received"}'
            require(len(series) == 1, "number of series")
            labels = check_labels(series[0])
            for sample in series[0].get("samples", []):
                uuid.UUID(sample["ID"][0])
                check_profile(sample["raw_profile"][0], len(body))
                self.check_time(labels, sample["raw_profile"][0])
                self.received.append((labels, sample["raw_profile"][0]))
        except (Refused, ValueError, KeyError, IndexError) as problem:
            self.refuse(problem)
            return 400, '{"code":"invalid_argument","message":"refused"}'
        return 200, ""


def main() -> None:
    engine = StandIn()
    port = pathlib.Path(sys.argv[1]) / "port"
    unfinished = port.with_suffix(".new")
    unfinished.write_text(str(engine.port))
    unfinished.rename(port)
    threading.Event().wait()


if __name__ == "__main__":
    main()
