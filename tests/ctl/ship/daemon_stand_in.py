"""A daemon as profctl ship sees it, with windows that protoc encodes from protobuf's text form."""

import gzip
import http.server
import json
import pathlib
import socketserver
import subprocess
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[3]
TIME_FIELD = b"\x48"  # time_nanos = 9, varint


class Texts:
    def __init__(self):
        self.places = {"": 0}

    def place(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes(parts) + bytes([value])


def windows_at(text: str, times: list) -> dict:
    """Files by name, each a window of that text, which has no time. `times`: seconds since 1970."""
    body = subprocess.run(["protoc", "-I", ROOT / "tests/formats/profile", "--encode=perftools.profiles.Profile",
                           "profile.proto"], input=text.encode(), capture_output=True, check=True).stdout
    return {time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(one)):
            gzip.compress(body + TIME_FIELD + varint(one * 10**9), 1) for one in times}


class DaemonStandIn:
    """GET /v1/windows?after=NAME and GET /v1/windows/NAME."""

    def __init__(self, socket: pathlib.Path, windows: dict):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                if url.path == "/v1/windows":
                    after = urllib.parse.parse_qs(url.query).get("after", [""])[0]
                    names = [name for name in windows if name > after]
                    if not names:
                        time.sleep(1)
                    self.answer(200, "application/json", json.dumps({"windows": names}).encode())
                    return
                body = windows.get(url.path.removeprefix("/v1/windows/"))
                self.answer(404 if body is None else 200, "application/octet-stream", body or b"")

            def answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self.server = Server(str(socket), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
