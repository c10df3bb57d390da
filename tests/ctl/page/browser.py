"""Headless Chromium, for the tests of the page."""

import json
import urllib.parse

from selenium import webdriver

HANG_GUARD = 60
HOSTILE = ["</script><script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">",
           "a\u202eb", "\u65e5\u672c\u8a9e"]


def expect(actual, expected, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, not {expected!r}")


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
