"""Headless Chromium, for the tests of the page."""

import json
import random
import urllib.parse

from selenium import webdriver

HANG_GUARD = 60
HOSTILE = ["</script><script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">",
           "a\u202eb", "\u65e5\u672c\u8a9e"]


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
