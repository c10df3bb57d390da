#!/usr/bin/python3
"""A flame graph's file in headless Chromium, from file://, without network: keys, clicks, search, menu and links.

    browser_test.py PROFCTL OUTPUT

Screenshots stay in OUTPUT, and what the browser's own clock says for the first picture, hover and zoom.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import (HANG_GUARD, HOSTILE, HOSTILE_BYTES, HOVER, MEASURE, ZOOM, check_console, expect, hostile_profile, make_stacks,
                     open_browser)

PROFCTL, OUTPUT = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
ROW = 19


def write_html(stacks: list, name: str) -> pathlib.Path:
    folded, html = OUTPUT / f"{name}.folded", OUTPUT / f"{name}.html"
    folded.write_text("".join(f"{';'.join(stack)} {samples}\n" for stack, samples in stacks), encoding="utf-8")
    html.unlink(missing_ok=True)
    subprocess.run([PROFCTL, "flame", str(folded), "--names", "full", "-o", str(html)], check=True, timeout=HANG_GUARD, stdout=subprocess.DEVNULL)
    return html


def share_of(stacks: list, wanted) -> str:
    """Of the samples with a function for which `wanted` holds."""
    part = sum(samples for stack, samples in stacks if any(wanted(name) for name in stack))
    return f"{100 * part / sum(samples for _, samples in stacks):.1f} %"


class Page:
    def __init__(self, browser, file: pathlib.Path, fragment: str = ""):
        self.browser = browser
        browser.get("about:blank")
        browser.get(file.as_uri() + fragment)
        self.picture = browser.find_element(By.CSS_SELECTOR, ".picture")

    def text(self, selector: str) -> str:
        return self.browser.find_element(By.CSS_SELECTOR, selector).text

    def texts(self, selector: str) -> list:
        return [one.text for one in self.browser.find_elements(By.CSS_SELECTOR, selector) if one.is_displayed()]

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def table(self) -> list:
        """The rows once the table was drawn again."""
        time.sleep(0.1)
        return [row.split(" %", 2) for row in self.browser.execute_script(
            "return [...document.querySelectorAll('tbody tr')].map((row) => row.innerText.replace(/\\s+/g, ' '))")]

    def point(self, row: int, x: float):
        """A place in the row of the picture, the root's being 0, `x` from its left (0 to 1)."""
        size = self.picture.size
        return ActionChains(self.browser).move_to_element_with_offset(
            self.picture, int(size["width"] * (x - 0.5)), int(size["height"] / 2 - ROW * row - ROW / 2))

    def picture_of(self, name: str) -> None:
        self.browser.save_screenshot(str(OUTPUT / f"{name}.png"))


def check_page(browser, file: pathlib.Path, stacks: list) -> None:
    page = Page(browser, file)
    hot = share_of(stacks, lambda name: name == "hot")
    page.picture_of("whole")

    # The table has the hottest function first, and each hostile name as text.
    page.browser.execute_script("document.querySelector('.functions thead button').click()")
    first = page.table()[0]
    expect((first[0] + " %", first[2].strip()), (hot, "hot"), "the hottest function")
    names = [row[2].strip() for row in page.table()]
    for name in HOSTILE:
        expect(name.replace("\u202e", "?") in names, True, f"the table's {name}")

    # By keys: the root, main, and what has most samples.
    page.picture.click()
    page.press(Keys.HOME)
    page.press(Keys.ARROW_UP, Keys.ARROW_UP)
    below_main = page.text(".details b")
    expect(below_main != "main" and below_main != "all", True, "two steps up")
    seen = {below_main}
    for _ in range(12):
        page.press(Keys.ARROW_RIGHT)
        seen.add(page.text(".details b"))
    expect("serve" in seen, True, f"steps to the right, {seen},")
    while page.text(".details b") != "serve":
        page.press(Keys.ARROW_LEFT)
    page.press(Keys.ARROW_UP)
    expect(page.text(".details b"), "hot", "a step up")
    expect(page.text(".details").split("(")[0].strip(), f"hot {hot}", "the share at the key's place")
    page.press(Keys.ENTER)
    expect(page.texts(".crumbs button"), ["all", "main", "serve", "hot"], "the breadcrumb after Enter")
    link = browser.current_url
    page.picture_of("zoomed")
    page.press(Keys.ESCAPE)
    expect(page.texts(".crumbs button"), ["all"], "the breadcrumb after Escape")

    # By search, with the share that is matched.
    page.press("/")
    page.press("^hot$")
    expect(page.text(".match").split(" in ")[0], hot, "the share of a search")
    page.press(Keys.ESCAPE, "work_1$|img")
    expect(page.text(".match").split(" in ")[0], share_of(stacks, lambda name: re.search("work_1$|img", name)),
           "the share of a regular expression")
    page.picture_of("search")
    page.press(Keys.ENTER, "n", "n")
    expect(bool(re.search("work_1$|img", page.text(".details b"))), True, "the next match")
    page.press("/", Keys.ESCAPE, "(")
    expect(page.text(".match"), "no regular expression", "an invalid search")
    page.press(Keys.ESCAPE, Keys.ESCAPE)

    # By hover and clicks. The root's row is the lowest.
    page.point(0, 0.5).perform()
    expect(page.text(".details b"), "all", "hover over the root")
    page.point(1, 0.5).perform()
    expect(page.text(".details b"), "main", "hover over the row above")
    page.point(1, 0.5).click().perform()
    expect(page.texts(".crumbs button"), ["all", "main"], "the breadcrumb after a click")
    browser.find_element(By.CSS_SELECTOR, ".crumbs button").click()
    expect(page.texts(".crumbs button"), ["all"], "the breadcrumb after a click on it")
    browser.back()
    time.sleep(0.2)
    expect(page.texts(".crumbs button"), ["all", "main"], "the page before")
    page.press(Keys.ESCAPE)

    # The menu, by the right button and by keys.
    page.point(2, 0.02).perform()
    name = page.text(".details b")
    page.point(2, 0.02).context_click().perform()
    page.picture_of("menu")
    expect(page.texts(".menu button")[1:4], ["Only samples with it", "Hide it", "Its callers"], "the menu")
    page.press(Keys.ARROW_DOWN, Keys.ENTER)
    expect(page.texts(".chips button"), [f"only samples with {name} \u2715"], "the filter")
    page.point(0, 0.5).perform()
    expect(page.text(".details").split("(")[0], f"all {share_of(stacks, lambda one: one == name)} ", "the focused samples")
    browser.find_element(By.CSS_SELECTOR, ".chips button").click()
    page.picture.click()
    page.press(Keys.ESCAPE, Keys.HOME, Keys.ARROW_UP, Keys.ARROW_UP)
    name = page.text(".details b")
    page.press("m", Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    expect(page.texts(".chips button"), [f"without {name} \u2715"], "what is hidden")
    expect(name in [row[2].strip() for row in page.table()], False, "the hidden function in the table")
    page.press("i", "c", "t")
    page.picture_of("icicle")
    expect("hide=" in browser.current_url and "icicle=1" in browser.current_url and "color=library" in browser.current_url
           and "table=0" in browser.current_url, True, f"the state in {browser.current_url}")

    # A link leads to the same state.
    page = Page(browser, file, "#" + urllib.parse.urlsplit(link).fragment)
    expect(page.texts(".crumbs button"), ["all", "main", "serve", "hot"], "the breadcrumb of a link")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    page = Page(browser, file, "#q=work_2")
    page.picture_of("dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    expect(browser.title.startswith("taken"), False, "a script of a name has run, which")


def check_callers(browser, file: pathlib.Path, stacks: list) -> None:
    page = Page(browser, file, "#callers=work_7")
    page.point(0, 0.5).perform()
    expect(page.text(".details").split("(")[0], f"all {share_of(stacks, lambda one: one == 'work_7')} ", "the callers' samples")
    page.picture_of("callers")


def check_copy(browser, file: pathlib.Path) -> None:
    """The name is copied and shown, also where a page has no clipboard, as over plain http."""
    page = Page(browser, file)
    browser.execute_script("""
        Object.defineProperty(navigator, "clipboard", {value: undefined});
        document.addEventListener("copy", () => { window.copied = getSelection().toString(); });""")
    page.point(1, 0.5).context_click().perform()
    browser.find_element(By.XPATH, "//button[.='Copy the name']").click()
    expect(browser.execute_script("return window.copied"), "main", "what is copied")


def check_hostile_names(browser) -> None:
    """Each is text, and none is markup, in the table and at the keyboard's place."""
    profile, file = OUTPUT / "hostile.pb", OUTPUT / "hostile.html"
    profile.write_bytes(hostile_profile())
    file.unlink(missing_ok=True)
    subprocess.run([PROFCTL, "flame", str(profile), "--names", "full", "-o", str(file)], check=True, timeout=HANG_GUARD, stdout=subprocess.DEVNULL)
    page = Page(browser, file)
    page.table()
    names = set(browser.execute_script("return [...document.querySelectorAll('td button')].map((one) => one.textContent)"))
    expect(set(HOSTILE_BYTES.values()) - names, set(), "the names that the table lacks")
    page.press(Keys.HOME, Keys.ARROW_UP)
    seen = set()
    for _ in range(len(HOSTILE_BYTES) + 1):
        seen.add(browser.execute_script("return document.querySelector('.details b').textContent"))
        page.press(Keys.ARROW_RIGHT)
    expect(set(HOSTILE_BYTES.values()) - seen, set(), "the names that keys do not find")
    expect((browser.execute_script("return document.querySelectorAll('img, b script, button script').length"), browser.title.startswith("taken")),
           (0, False), "elements of names, and what they did,")
    page.picture_of("hostile")


def measure(browser, nodes: int, name: str) -> dict:
    """What the browser's own clock says of a file with about so many nodes."""
    stacks = make_stacks(nodes * 4 // 25, 60)
    file = write_html(stacks, name)
    page = Page(browser, file)
    shown = len(json.loads(re.search(r'id="data">(.*?)</script>', file.read_text())[1])["nodes"]["depth"])
    paint = browser.execute_script("""
        const [first] = performance.getEntriesByName("first-contentful-paint");
        const [navigation] = performance.getEntriesByType("navigation");
        return {paint: first ? first.startTime : null, shown: performance.getEntriesByName("profd-shown")[0].startTime,
                data: navigation.responseEnd, loaded: navigation.loadEventEnd}""")
    browser.set_script_timeout(HANG_GUARD)
    page.picture_of(name)
    return {"nodes": shown, "bytes": file.stat().st_size, "first_ms": paint,
            "hover_ms": browser.execute_async_script(MEASURE, HOVER, 40),
            "zoom_ms": browser.execute_async_script(MEASURE, ZOOM, 20)}


def main() -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    stacks = make_stacks(600, 60)
    file = write_html(stacks, "flame")
    # Chromium leaves directories in the one for temporary files.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        os.environ["TMPDIR"] = temporary
        browser = open_browser()
        try:
            check_page(browser, file, stacks)
            check_callers(browser, file, stacks)
            check_copy(browser, file)
            check_hostile_names(browser)
            times = [measure(browser, nodes, f"nodes_{nodes}") for nodes in (10_000, 100_000)]
            check_console(browser, lambda url: url.scheme in ("file", "about"))
        finally:
            browser.quit()
    (OUTPUT / "times.json").write_text(json.dumps(times, indent=1) + "\n")
    print(json.dumps(times))


main()
