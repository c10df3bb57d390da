"""Headless Chromium, for the tests of the page."""

import json
import random
import urllib.parse

from selenium import webdriver

HANG_GUARD = 60
HOSTILE = ["</script><script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">",
           "a\u202eb", "\u65e5\u672c\u8a9e"]


# Names as they lie in a profile, and as each place shows them: by hand, after formats/base/utf8_text.h.
HOSTILE_BYTES = {
    b"</script><script>document.title='taken'</script>": "</script><script>document.title='taken'</script>",
    b"<img src=x onerror=\"document.title='taken'\">": "<img src=x onerror=\"document.title='taken'\">",
    "a\u202eb".encode(): "a?b",
    b"bad\xff\xfe": "bad\ufffd\ufffd",
    b"line\nbreak\x07": "line?break?",
    b"x" * (1 << 20): "x" * 1021 + "...",
}
LONG_NAME, SHORT_NAME = "ns::Table<int, char>::insert(int const&)", "ns::Table::insert"


def number_bytes(number: int) -> bytes:
    """A varint of protobuf."""
    text = bytearray()
    while number >= 0x80:
        text.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(text) + bytes([number])


def field(tag: int, value) -> bytes:
    if isinstance(value, int):
        return number_bytes(tag << 3) + number_bytes(value)
    return number_bytes(tag << 3 | 2) + number_bytes(len(value)) + value


def hostile_profile() -> bytes:
    """A profile.proto in which functions, files, objects, commands and units have hostile names, each in 10 samples."""
    texts = [b"", b"samples", b"count", b"comm", b"unit", b"pid"]

    def text(one: bytes) -> int:
        texts.append(one)
        return len(texts) - 1

    rows = b""
    for i, name in enumerate([*HOSTILE_BYTES, LONG_NAME.encode()], 1):
        rows += field(3, field(1, i) + field(5, text(b"/lib/" + name)))
        rows += field(5, field(1, i) + field(2, text(name)) + field(4, text(b"/no/" + name)))
        rows += field(4, field(1, i) + field(2, i) + field(4, field(1, i) + field(2, 3)))
        labels = (field(3, field(1, 3) + field(2, text(name))) + field(3, field(1, 4) + field(2, text(name)))
                  + field(3, field(1, 5) + field(3, 100 + i)))
        rows += field(2, field(1, number_bytes(i)) + field(2, number_bytes(10)) + labels)
    types = field(1, 1) + field(2, 2)
    return field(1, types) + field(11, types) + rows + b"".join(field(6, one) for one in texts)


def profile_of_processes(count: int) -> bytes:
    """A profile.proto of processes 1 to `count`, each with one sample of the function "work"."""
    texts = ["", "samples", "count", "pid", "comm", "one", "work"]
    rows = field(5, field(1, 1) + field(2, 6)) + field(4, field(1, 1) + field(4, field(1, 1)))
    for pid in range(1, count + 1):
        labels = field(3, field(1, 3) + field(3, pid)) + field(3, field(1, 4) + field(2, 5))
        rows += field(2, field(1, number_bytes(1)) + field(2, number_bytes(1)) + labels)
    types = field(1, 1) + field(2, 2)
    return field(1, types) + field(11, types) + rows + b"".join(field(6, one.encode()) for one in texts)


def expect(actual, expected, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, not {expected!r}")


def make_stacks(count: int, functions: int) -> list:
    """Lists of (stack, samples), of which a fifth are in "hot" below "serve"."""
    numbers = random.Random(17)
    stacks = [(["main", "serve", "hot"], count)]
    for _ in range(count):
        depth = 3 + numbers.randrange(14)
        stacks.append((["main"] + [f"work_{numbers.randrange(functions if i > 1 else 4)}" for i in range(depth)], 4))
    return stacks + [(["main", name], count // 20) for name in HOSTILE]


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    # As root there is no sandbox of Chromium; the picture needs no GPU.
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900",
                     "--force-device-scale-factor=1", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.chrome.service.Service("/usr/bin/chromedriver")
    return webdriver.Chrome(service=service, options=options)


def check_console(browser, is_allowed) -> None:
    """No error, and no request but for addresses that are allowed."""
    faults = [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    expect(faults, [], "the console")
    addresses = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            addresses.add(message["params"]["request"]["url"])
    expect([one for one in addresses if not is_allowed(urllib.parse.urlsplit(one))], [], "other requests")


# Runs `act` often, each time until the next frame was drawn; the median of both times, in milliseconds.
MEASURE = """
const act = new Function("i", arguments[0]), rounds = arguments[1], done = arguments[arguments.length - 1];
const scripts = [], frames = [];
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
function round(i) {
  if (i === rounds) { done({script: median(scripts), frame: median(frames), most: Math.max(...scripts)}); return; }
  requestAnimationFrame(() => {
    const start = performance.now();
    act(i);
    scripts.push(performance.now() - start);
    requestAnimationFrame(() => { frames.push(performance.now() - start); setTimeout(() => round(i + 1), 20); });
  });
}
round(0);
"""
HOVER = """
const picture = document.querySelector(".picture"), box = picture.getBoundingClientRect();
picture.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width * ((i * 37) % 100) / 100,
                                                       clientY: box.bottom - 25 - 19 * (i % 8), bubbles: true}));
"""
ZOOM = """
const picture = document.querySelector(".picture"), box = picture.getBoundingClientRect();
if (i % 2) document.querySelector(".crumbs button").click();
else picture.dispatchEvent(new MouseEvent("click", {clientX: box.left + 20, clientY: box.bottom - 47, bubbles: true}));
"""
