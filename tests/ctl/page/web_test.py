#!/usr/bin/python3
"""profctl web in headless Chromium, on a real profd with known workloads: the burst of a few seconds ago is found by
clicks and keys, and every number is that of 'profctl report' and 'diff'. As root.

    web_test.py BUILD GO_PPROF OUTPUT

Screenshots and the browser's own times stay in OUTPUT.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import (HANG_GUARD, HOSTILE_BYTES, HOVER, LONG_NAME, MEASURE, SHORT_NAME, ZOOM, check_console, expect, hostile_profile,
                     make_stacks, open_browser, profile_of_processes)

BUILD, GO_PPROF, OUTPUT = (pathlib.Path(one).resolve() for one in sys.argv[1:4])
WORKLOADS = BUILD / "tests" / "workloads"
WINDOW = 2  # seconds
BURST = 7
# Names of their own, since other tests may run the same programs.
BURSTS, QUIET, PHASES = "web-bursts", "web-quiet", "web-phases"
TARGET = f"{QUIET},{BURSTS}"
PHASE = 300, 600  # milliseconds of each second
PHASE_SECONDS = 5
PART_MS = 20  # of a cell
AXIS = 16  # pixels
MOVE_MS = 50  # of a move of the pointer


def wait_until(condition, what: str, limit: float = HANG_GUARD):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come")


class Host:
    """A profd in continuous mode, and profctl on it."""

    def __init__(self, folder: pathlib.Path):
        self.socket = folder / "profd.sock"
        config = folder / "profd.toml"
        config.write_text(f'[continuous]\nenabled = true\nwindow = "{WINDOW}s"\nfrequency = 499\n')
        for name, program in ((BURSTS, "shares"), (QUIET, "reader"), (PHASES, "phases")):
            shutil.copy(WORKLOADS / program, folder / name)
        self.folder = folder
        self.log = open(OUTPUT / "profd.log", "w")
        self.processes = [subprocess.Popen([BUILD / "profd", "--socket", self.socket, "--state-dir", folder / "state", "--config", config],
                                           stdout=self.log, stderr=self.log)]
        wait_until(lambda: self.run("status").returncode == 0, "profd")

    def run(self, *arguments):
        return subprocess.run([BUILD / "profctl", "--socket", self.socket, *arguments], capture_output=True, text=True,
                              timeout=HANG_GUARD, check=False)

    def json(self, *arguments):
        done = self.run(*arguments, "--json")
        # Its remarks, on lost samples for example, do not matter here.
        expect(done.returncode, 0, f"profctl {arguments}: {done.stderr}")
        return json.loads(done.stdout)

    def start(self, *command, **options) -> subprocess.Popen:
        process = subprocess.Popen(command, **options)
        self.processes.append(process)
        return process

    def serve(self, *arguments) -> tuple:
        """The process, and the address that it has printed."""
        process = self.start(BUILD / "profctl", "--socket", self.socket, "web", "--port", "0", *arguments,
                             stdout=subprocess.PIPE, text=True)
        address = process.stdout.readline().strip()
        expect(address.startswith("http://127.0.0.1:") and "/?token=" in address, True, f"the first line, {address!r},")
        return process, address

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(timeout=HANG_GUARD)
        self.log.close()


class Page:
    def __init__(self, browser, address: str):
        self.browser = browser
        browser.get("about:blank")
        browser.get(address)
        self.settle()

    def settle(self) -> None:
        """Nothing is asked for any more, and the table is drawn."""
        wait_until(lambda: self.browser.execute_script(
            "return document.querySelector('.picture') !== null && document.querySelector('h1').textContent !== '' "
            "&& !document.body.classList.contains('busy')"), "the end of all requests")
        time.sleep(0.2)
        if self.browser.execute_script("return document.body.classList.contains('busy')"):
            self.settle()

    def find(self, selector: str):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def texts(self, selector: str) -> list:
        """Of those that are displayed; by one request, since a list has hundreds."""
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter((one) => one.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}))"
            ".map((one) => one.innerText.trim())", selector)

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()
        self.settle()

    def rows(self, selector: str = ".functions:not([hidden]) tbody tr") -> list:
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((row) => [...row.children].map((cell) => cell.innerText.trim()))", selector)

    def state(self) -> dict:
        return urllib.parse.parse_qs(urllib.parse.urlsplit(self.browser.current_url).fragment)

    def at(self, x: float):
        """A place of the timeline, 0 to 1 from its left."""
        timeline = self.find(".timeline")
        width = timeline.size["width"]
        return ActionChains(self.browser, duration=MOVE_MS).move_to_element_with_offset(timeline, int(width * (x - 0.5)), 0)

    def drag(self, start: float, end: float, *, is_base: bool = False) -> None:
        width = self.find(".timeline").size["width"]
        actions = self.at(start)
        if is_base:
            actions = actions.key_down(Keys.SHIFT)
        actions = actions.click_and_hold().move_by_offset(int(width * (end - start)), 0).release()
        if is_base:
            actions = actions.key_up(Keys.SHIFT)
        actions.perform()
        self.settle()

    def picture_of(self, name: str) -> None:
        self.browser.save_screenshot(str(OUTPUT / f"web_{name}.png"))


def use_over_time(page: Page) -> list:
    """(place, percent of one CPU) along the timeline, as the pointer finds them."""
    found = []
    for i in range(1, 40):
        page.at(i / 40).perform()
        words = page.text(".times").split(" % of one CPU")[0].split(": ")
        if len(words) == 2 and words[1].replace(".", "").isdigit():
            found.append((i / 40, float(words[1])))
    return found


def share_text(percent: float) -> str:
    return f"{percent:.1f} %"


def seconds(ms: str) -> str:
    return f"@{int(ms) / 1000:.3f}"


def report_of(host: Host, page: Page, *more, of: str = "range") -> dict:
    since, until = page.state()[of][0].split("-")
    return host.json("report", "-n", TARGET, "--since", seconds(since), "--until", seconds(until), *more)


def expect_rows(page: Page, report: dict) -> None:
    rows = page.rows()
    expect(len(rows) > 2, True, f"the number of rows, {len(rows)},")
    for row, of_report in zip(rows, report["rows"]):
        expect(row, [share_text(of_report["self_percent"]), share_text(of_report["total_percent"]),
                     of_report["name"].replace("\u202e", "?")], "a row of the table")


def check_burst(host: Host, browser, address: str) -> Page:
    """Finds the burst, and reads its hottest function and share."""
    page = Page(browser, address)
    page.picture_of("first")
    page.find(".past .tools button:nth-of-type(3)").click()
    page.settle()
    use = use_over_time(page)
    most = max(percent for _, percent in use)
    high = [place for place, percent in use if percent > 0.5 * most]
    expect(most > 20 and 1 <= len(high) < len(use) / 2, True, f"a burst in {use}:")
    page.drag(high[0], high[-1])
    report = report_of(host, page)
    expect(report["rows"][0]["name"], "hot_sixty", "the hottest function of the report")
    expect(page.rows()[0][2], "hot_sixty", "the first row of the page")
    expect_rows(page, report)
    page.picture_of("burst")
    # The same in the picture, by search.
    page.press("/", "^hot_sixty$")
    expect(page.text(".match").split(" in ")[0], share_text(report["rows"][0]["total_percent"]), "the share of the search")
    page.press(Keys.ESCAPE, Keys.ESCAPE)
    # The list has the process, and choosing it shows its samples alone.
    process = next(row for row in page.browser.find_elements(By.CSS_SELECTOR, ".row.process") if row.text.startswith(BURSTS))
    pid = process.text.split()[1]
    process.click()
    page.settle()
    expect(page.state()["target"], [f"pid:{pid}"], "the chosen process")
    since, until = page.state()["range"][0].split("-")
    expect_rows(page, host.json("report", "-p", pid, "--since", seconds(since), "--until", seconds(until)))
    page.press("f", BURSTS)
    expect(all(BURSTS in text for text in page.texts(".row")), True, f"the filtered list {page.texts('.row')}")
    # A link has the filter, too.
    filtered = page.texts(".row .name")
    expect(page.state()["filter"], [BURSTS], "the filter in the link")
    page = Page(browser, browser.current_url)
    expect((page.texts(".row .name"), page.find("aside input").get_property("value")), (filtered, BURSTS), "the list of a link")
    page.press("f", Keys.END, *[Keys.BACKSPACE] * len(BURSTS), Keys.ESCAPE)
    expect("filter" in page.state(), False, "a filter after it was deleted")
    page.find(".chips button").click()
    page.settle()
    return page


def check_comparison(host: Host, page: Page) -> None:
    """Of the burst with the time before it, by keys: what has the present range becomes the base, and back."""
    # Without a base, the page says what to do, in this view alone.
    page.press("4")
    expect((page.text(".error"), page.rows()), ("Choose what to compare with: drag with Shift, or press b", []), "the comparison with nothing")
    for key in ("1", "2", "4", "3", "5", "1"):
        page.press(key)
        expect(page.text(".error") != "", key == "4", f"an error after {key}: {page.text('.error')!r}")
    burst = page.state()["range"][0]
    page.press("h", Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    base = page.state()["range"][0]
    expect(base != burst, True, "another range by keys")
    page.press("b")
    page.browser.get(page.browser.current_url.replace(f"range={base}", f"range={burst}"))
    page.settle()
    page.press("4")
    expect((page.state()["base"][0], page.state()["view"]), (base, ["diff"]), "the state of the comparison")
    since, until = base.split("-")
    now_since, now_until = burst.split("-")
    diff = host.json("diff", f"{seconds(since)}..{seconds(until)}", f"{seconds(now_since)}..{seconds(now_until)}", "-n", TARGET)
    for row, of_diff in zip(page.rows(), diff["rows"]):
        before = share_text(of_diff["base"]["self_percent"]) if "base" in of_diff else "new"
        now = share_text(of_diff["new"]["self_percent"]) if "new" in of_diff else "gone"
        expect(row[:2] + row[3:], [before, now, of_diff["name"]], "a row of the comparison")
    expect("hot_sixty" in [row[3] for row in page.rows()[:3]], True, f"hot_sixty in {page.rows()[:3]}")
    page.picture_of("compare")
    # A base by the mouse, and none.
    page.drag(0.02, 0.2, is_base=True)
    expect(page.state()["base"][0] != base, True, "a base by the mouse")


def check_views(host: Host, page: Page) -> None:
    page.press("2")
    expect_rows(page, report_of(host, page))
    page.picture_of("table")
    page.press("3")
    page.browser.find_element(By.XPATH, "//*[contains(@class,'functions')]//td/button[.='work']").click()
    page.settle()
    expect((page.state()["view"], page.state()["fn"]), (["sandwich"], ["work"]), "the sandwich")
    page.picture_of("sandwich")
    callees = report_of(host, page, "--callees", "work")["callees"]["nodes"]
    shown = {node["name"]: share_text(node["total_percent"]) for node in callees if node["depth"] < 2}
    picture = page.browser.find_elements(By.CSS_SELECTOR, ".sandwich .picture")[1]
    ActionChains(page.browser).move_to_element_with_offset(picture, -20, int(19 * 1.5 - picture.size["height"] / 2)).perform()
    expect(page.text(".details").split(" (")[0], f"work {shown['work']}", "the callees' own function")
    page.press("5")
    lines = [row for row in page.rows(".lines tbody tr, .functions.wide:not([hidden]) tbody tr") if row[1] != ""]
    expect(len(lines) > 0, True, "lines with samples")
    page.picture_of("lines")
    by_line = {row["name"].rsplit(":", 1)[1]: row for row in report_of(host, page, "--by", "line", "--focus", "^work$")["rows"]
               if row["name"].startswith("work ") and ":" in row["name"]}
    for _, total, line, _ in lines:
        expect(total, share_text(by_line[line]["total_percent"]), f"the share of line {line}")
    page.press("1")


def check_sandwich_keys(page: Page) -> None:
    """What the flame graph can do by keys, in both graphs of a sandwich."""
    browser = page.browser
    page.press("3")
    browser.find_element(By.XPATH, "//*[contains(@class,'functions')]//td/button[.='work']").click()
    page.settle()
    callers, callees = browser.find_elements(By.CSS_SELECTOR, ".sandwich .picture")
    browser.execute_script("arguments[0].focus()", callees)
    page.press(Keys.HOME)
    expect(page.text(".details b"), "all", "Home in the callees")
    page.press(Keys.ARROW_DOWN)
    expect(page.text(".details b"), "work", "a step down in the callees")
    page.press("m")
    expect((page.text(".menu .title"), page.texts(".menu button")[0]), ("work", "Zoom here"), "the menu of the callees")
    page.press(Keys.ESCAPE)
    expect(browser.switch_to.active_element, callees, "the focus after the menu")
    # The search marks both graphs, and goes to the matches of the one that has the focus.
    page.press(Keys.HOME, "/", "^work$", Keys.ENTER)
    expect((page.text(".details b"), browser.switch_to.active_element), ("work", callees), "the match after Enter")
    page.press(Keys.HOME, "N")
    expect(page.text(".details b"), "work", "the match of N")
    browser.execute_script("arguments[0].focus()", callers)
    page.press(Keys.HOME, "n")
    expect(page.text(".details b"), "work", "the match in the callers")
    page.press(Keys.ARROW_UP)
    caller = page.text(".details b")
    expect(caller not in ("all", "work"), True, f"a step up in the callers, {caller},")
    page.picture_of("sandwich_keys")
    page.press(Keys.ENTER)
    expect(page.state()["fn"], [caller], "the function after Enter")
    page.press(Keys.ESCAPE)
    expect("fn" in page.state(), False, "a function after Escape")
    table = page.find(".functions:not(.wide)")
    expect(table.is_displayed(), True, "the table of a sandwich")
    page.press("t")
    expect(table.is_displayed(), False, "the table after t")
    page.press("t", "/", Keys.ESCAPE, Keys.ESCAPE, "1")


def hostile_texts(page: Page, selector: str) -> set:
    return set(page.browser.execute_script("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector))


def check_hostile_names(host: Host, browser) -> None:
    """Names of functions, files, objects, commands and units are text wherever they stand."""
    file = OUTPUT / "web_hostile.pb"
    file.write_bytes(hostile_profile())
    server, address = host.serve(file)
    page = Page(browser, address)
    expect(SHORT_NAME in hostile_texts(page, "td button"), True, "the short name")
    page.press("l")
    expect(page.state()["names"], ["full"], "full names in the link")
    page = Page(browser, browser.current_url)
    shown = set(HOSTILE_BYTES.values())
    expect((shown | {LONG_NAME}) - hostile_texts(page, "td button"), set(), "the functions that the table lacks")
    expect(shown - hostile_texts(page, ".row.unit .name"), set(), "the units that the list lacks")
    commands = {name.rsplit(" ", 1)[0] for name in hostile_texts(page, ".row.process .name")}
    expect(shown - commands, set(), "the commands that the list lacks")
    page.press(Keys.HOME, Keys.ARROW_UP)
    functions, objects = set(), ""
    for _ in range(len(shown) + 1):
        functions |= hostile_texts(page, ".details b")
        objects += "".join(hostile_texts(page, ".details span"))
        page.press(Keys.ARROW_RIGHT)
    expect(shown - functions, set(), "the functions that keys do not find")
    expect("<img src=x" in objects and "a?b" in objects and "\u202e" not in objects, True, f"the objects {objects!r}")
    page.picture_of("hostile")
    for name in sorted(shown, key=len)[:-1]:
        page = Page(browser, address + "#" + urllib.parse.urlencode({"names": "full", "view": "lines", "fn": name}))
        expect(f"{name} /no/{name}" in hostile_texts(page, ".functions.wide th"), True, f"the file of {name!r}")
    expect((browser.execute_script("return document.querySelectorAll('img, main script, aside script, header script, footer script').length"),
            browser.title.startswith("taken")), (0, False), "elements of names, and what they did,")
    page.press("1", "l")
    expect("names" in page.state(), False, "full names after l again")
    server.terminate()
    server.wait(timeout=HANG_GUARD)
    file.unlink()


def check_long_list(host: Host, browser) -> None:
    """profctl sends the unit and 500 of its 620 processes, and the page shows 300 of these rows: 201 and 120 are left."""
    file = OUTPUT / "web_list.pb"
    file.write_bytes(profile_of_processes(620))
    server, address = host.serve(file)
    page = Page(browser, address)
    expect((len(page.texts(".row")), page.texts(".rows p")), (300, ["321 more"]), "the list and its end")
    # Those that profctl left out are not filtered.
    page.press("f", "(no unit)")
    expect((page.texts(".row .name"), page.texts(".rows p")), (["(no unit)"], ["120 more"]), "the filtered list and its end")
    page.press(Keys.ESCAPE)
    server.terminate()
    server.wait(timeout=HANG_GUARD)
    file.unlink()


def check_link(page: Page, browser) -> None:
    """A link leads to the same state, also after a zoom."""
    picture = page.find(".picture")
    ActionChains(browser).move_to_element_with_offset(picture, 0, int(picture.size["height"] / 2 - 28)).click().perform()
    page.settle()
    crumbs, rows, link = page.texts(".crumbs button"), page.rows(), browser.current_url
    expect(len(crumbs), 2, f"the breadcrumb {crumbs}")
    again = Page(browser, link)
    expect((again.texts(".crumbs button"), again.rows(), again.text(".times")), (crumbs, rows, page.text(".times")), "the state of a link")
    again.press(Keys.ESCAPE)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    page = Page(browser, link)
    page.picture_of("dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def sums_of_traces(file: pathlib.Path, *pprof) -> dict:
    """Samples by innermost function, as a pprof prints them."""
    done = subprocess.run([*pprof, file], capture_output=True, text=True, check=True, timeout=HANG_GUARD, cwd=file.parent)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[-1]: int(row[0]) for row in rows if len(row) > 5 and row[0].isdigit() and row[0] != "0"}


def check_exports(host: Host, page: Page, folder: pathlib.Path) -> None:
    report = report_of(host, page, "--names", "full")
    hot = next(row["self"]["samples"] for row in report["rows"] if row["name"] == "hot_sixty")
    found = {}
    for link in page.browser.find_elements(By.CSS_SELECTOR, ".exports a"):
        with urllib.request.urlopen(link.get_attribute("href"), timeout=HANG_GUARD) as answer:
            name = answer.headers["Content-Disposition"].split('"')[1]
            found[link.text] = folder / name
            found[link.text].write_bytes(answer.read())
    expect(sorted(found), ["folded", "gperftools", "html", "pprof", "speedscope", "svg"], "the exports")
    go = [GO_PPROF, "-top", "-nodecount=0", "-sample_index=samples"]
    expect(sums_of_traces(found["pprof"], *go, "-symbolize=none").get("hot_sixty"), hot, "hot_sixty in Go's pprof")
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in found["folded"].read_text().splitlines() if line.rsplit(" ", 1)[0].endswith(";hot_sixty"))
    expect(folded, hot, "hot_sixty in the folded stacks")
    speedscope = json.loads(found["speedscope"].read_text())
    expect("hot_sixty" in [frame["name"] for frame in speedscope["shared"]["frames"]], True, "hot_sixty in speedscope's file")
    expect("hot_sixty" in found["svg"].read_text() and "hot_sixty" in found["html"].read_text(), True, "hot_sixty in the pictures")
    with tarfile.open(found["gperftools"]) as tar:
        tar.extractall(folder)
    expect(sums_of_traces(folder / "profile.prof", *go).get("hot_sixty"), hot, "hot_sixty of .prof in Go's pprof")
    perl = sums_of_traces(folder / "profile.prof", "google-pprof", "--text", folder / "profile.names.so")
    expect(perl.get("hot_sixty"), hot, "hot_sixty in google-pprof")


def check_pprof_over_http(host: Host, address: str, folder: pathlib.Path) -> None:
    """go tool pprof takes a profile of a process from the address that Go's programs have."""
    busy = host.start(host.folder / BURSTS, "30", stdout=subprocess.DEVNULL)
    base, token = address.split("/?")
    done = subprocess.run([GO_PPROF, "-top", "-symbolize=none", f"{base}/debug/pprof/profile?seconds=2&{token}&pid={busy.pid}"],
                          capture_output=True, text=True, timeout=HANG_GUARD, check=False, env={**os.environ, "PPROF_TMPDIR": str(folder)})
    expect(done.returncode == 0 and "hot_sixty" in done.stdout, True, done.stdout + done.stderr)


def status_of(address: str, form: bytes = None, **headers) -> int:
    request = urllib.request.Request(address, data=form, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=HANG_GUARD) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def write_large(nodes: int) -> pathlib.Path:
    file = OUTPUT / "web_large.folded"
    stacks = make_stacks(nodes * 4 // 25, 60)
    file.write_text("".join(f"{';'.join(stack)} {samples}\n" for stack, samples in stacks), encoding="utf-8")
    return file


def check_large_file(host: Host, browser) -> dict:
    """A file with more nodes than the page gets at once: zoom shows more. Returns what the browser's clock says."""
    file = write_large(100_000)
    server, address = host.serve(file)
    page = Page(browser, address)
    expect("smaller nodes left out" in page.text("header p"), True, page.text("header p"))
    expect_rows(page, host.json("report", file))
    page.picture_of("large")
    page.press("/", "b$")
    expect([row[2] for row in page.rows()], ["a?b"], "a name with a mark from right to left")
    # profctl's own sum, also of the nodes that the page has not.
    page.press(Keys.ESCAPE, "work_1")
    found = host.json("report", file, "--focus", "work_1")
    expect(page.text(".match").split(" in ")[0], share_text(100 * found["shown"]["samples"] / found["all"]["samples"]), "the share of a search")
    page.press(Keys.ESCAPE, Keys.ESCAPE)
    expect(browser.title.startswith("taken"), False, "a script of a name has run, which")
    times = browser.execute_script("""
        const of = (path) => performance.getEntriesByType("resource").find(({name}) => name.includes(path));
        const [shown] = performance.getEntriesByName("profd-shown");
        const flame = of("/api/flame");
        return {answer_ms: flame.responseEnd - flame.startTime, shown_after_data_ms: shown.startTime - flame.responseEnd}""")
    browser.set_script_timeout(HANG_GUARD)
    times["hover_ms"] = browser.execute_async_script(MEASURE, HOVER, 12)
    times["zoom_ms"] = browser.execute_async_script(MEASURE, ZOOM, 6)
    page.settle()
    # Zoomed, profctl sends what was left out before.
    page.press(Keys.ESCAPE, Keys.HOME)
    page.find(".picture").click()
    page.press(Keys.HOME, Keys.ARROW_UP, Keys.ARROW_UP, Keys.ENTER)
    expect(len(page.texts(".crumbs button")), 3, "the breadcrumb")
    expect("zoom=" in browser.execute_script("return performance.getEntriesByType('resource').map(({name}) => name).filter((name) => name.includes('/api/flame')).at(-1)"),
           True, "more of the part")
    server.terminate()
    expect(server.wait(timeout=HANG_GUARD), 128 + signal.SIGTERM, "the exit status after SIGTERM")
    file.unlink()
    return times


def data_of(address: str, path: str, **fields) -> dict:
    base, token = address.split("/?")
    query = "&".join([token, *(f"{name}={value}" for name, value in fields.items())])
    with urllib.request.urlopen(f"{base}{path}?{query}", timeout=HANG_GUARD) as answer:
        return json.load(answer)


def cells_of(timeline: dict) -> dict:
    """Samples by the start of the cell, in milliseconds."""
    return {window["since"] + i * PART_MS: samples for window in timeline["windows"] for i, samples in enumerate(window["parts"])}


def is_in_phase(cell: int) -> bool:
    """Whole cells alone: the first and the last one are cut."""
    return PHASE[0] <= cell % 1000 < PHASE[1]


class HeatMap:
    """The cells of the page, as the pointer finds them and as they are drawn."""

    def __init__(self, page: Page, timeline: dict):
        self.page = page
        self.first = timeline["windows"][0]["since"]
        self.seconds = len(timeline["windows"])
        self.rows = len(timeline["windows"][0]["parts"])

    def place(self, cell: int) -> tuple:
        """Pixels from the left and the top of the canvas."""
        size = self.page.find(".timeline canvas").size
        second, part = divmod((cell - self.first) // PART_MS, self.rows)
        height = size["height"] - AXIS
        return int(size["width"] * (second + 0.5) / self.seconds), int(height * (1 - (part + 0.5) / self.rows))

    def move(self, cell: int):
        box = self.page.find(".timeline canvas")
        x, y = self.place(cell)
        return ActionChains(self.page.browser, duration=MOVE_MS).move_to_element_with_offset(
            box, x - box.size["width"] // 2, y - box.size["height"] // 2)

    def hover(self, cell: int) -> str:
        self.move(cell).perform()
        return self.page.text(".times")

    def drag(self, first: int, last: int) -> None:
        box = self.page.find(".timeline canvas")
        x, y = self.place(last)
        self.move(first).click_and_hold().move_to_element_with_offset(
            box, x - box.size["width"] // 2, y - box.size["height"] // 2).release().perform()
        self.page.settle()

    def shades(self) -> dict:
        """How much of a cell's pixel is covered, 0 to 255."""
        cells = [self.first + i * PART_MS for i in range(self.seconds * self.rows)]
        found = self.page.browser.execute_script("""
            const canvas = document.querySelector(".timeline canvas");
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return arguments[0].map(([x, y]) => data[4 * (y * canvas.width + x) + 3]);""", [self.place(cell) for cell in cells])
        return dict(zip(cells, found))


def samples_shown(page: Page) -> int:
    """What the page says above the picture."""
    return int(re.search("([0-9,]+) samples?", page.text("header p"))[1].replace(",", ""))


def record_phases(host: Host) -> list:
    """A workload that is busy in a part of each second, in a file and in a directory: both record the same seconds."""
    busy = host.start("nice", "-n", "-15", host.folder / PHASES, str(5 * HANG_GUARD), *map(str, PHASE))
    outputs = [host.folder / "phases.pb.gz", host.folder / "phases"]
    recordings = [host.start(BUILD / "profctl", "--socket", host.socket, "record", "-p", str(busy.pid), "-F", "499", "-d", f"{PHASE_SECONDS}s",
                             "-o", output, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for output in outputs]
    for recording in recordings:
        _, errors = recording.communicate(timeout=HANG_GUARD)
        expect(recording.returncode, 0, errors)
    busy.terminate()
    busy.wait(timeout=HANG_GUARD)
    return outputs


def check_heat_map(host: Host, browser, recording: pathlib.Path) -> None:
    """The rows of the busy part of each second are dark, and a range has the samples of its cells."""
    server, address = host.serve(recording)
    timeline = data_of(address, "/api/timeline")
    cells = cells_of(timeline)
    total = data_of(address, "/api/table")["all"]["samples"]
    expect((sum(cells.values()), timeline["untimed"]), (total, 0), "the samples with a time")
    within = sum(samples for cell, samples in cells.items() if PHASE[0] - PART_MS < cell % 1000 < PHASE[1])
    expect(within > 0.9 * total > 50, True, f"{within} of {total} samples in the phase")
    page = Page(browser, address)
    page.press("g")
    expect(page.state()["heat"], ["1"], "the heat map in the link")
    heat = HeatMap(page, timeline)
    for cell, shade in heat.shades().items():
        expect(shade > 0, cells[cell] > 0, f"a drawn cell of {cells[cell]} samples")
    phase = [cell for cell in cells if is_in_phase(cell) and cells.get(cell - PART_MS, 0) > 0 and is_in_phase(cell - PART_MS)]
    for cell in (phase[3], phase[-1]):
        expect(heat.hover(cell).endswith(f": {cells[cell]} sample" + "s" * (cells[cell] != 1)), True, heat.hover(cell))
    page.picture_of(f"heat_{recording.name}")
    # From a cell of one second to one of the next, over the pause between both.
    first = next(cell for cell in phase if cell - heat.first > 1000)
    last = first + 1000 + 5 * PART_MS
    heat.drag(first, last)
    expect(page.state()["range"], [f"{first}-{last + PART_MS}"], "the chosen range")
    chosen = sum(samples for cell, samples in cells.items() if first <= cell <= last)
    expect(samples_shown(page), chosen, "the samples of the chosen cells")
    expect(page.rows()[0][2], "hot_phase", "the hottest function")
    report = data_of(address, "/api/table", since=first, until=last + PART_MS)
    expect_rows(page, report)
    page.press("/", "^hot_phase$")
    hot = next(row for row in report["rows"] if row["name"] == "hot_phase")
    expect(page.text(".match").split(" in ")[0], share_text(hot["total_percent"]), "hot_phase in the picture")
    page.press(Keys.ESCAPE, Keys.ESCAPE)
    page.picture_of(f"heat_range_{recording.name}")
    # By keys, and by a link.
    page.press("h", Keys.ARROW_UP, Keys.ARROW_RIGHT)
    expect(page.state()["range"], [f"{first + 1000 + PART_MS}-{last + 1000 + 2 * PART_MS}"], "the range that keys have moved")
    moved = sum(samples for cell, samples in cells.items() if first + 1000 + PART_MS <= cell <= last + 1000 + PART_MS)
    expect(samples_shown(page), moved, "the samples of the moved range")
    again = Page(browser, browser.current_url)
    expect((samples_shown(again), again.text(".times")), (moved, page.text(".times")), "the state of a link")
    again.press("g")
    again.browser.find_element(By.XPATH, "//button[.='Show all']").click()
    again.settle()
    expect(samples_shown(again), total, "the samples of all")
    server.terminate()
    server.wait(timeout=HANG_GUARD)


def check_orders(host: Host, browser) -> None:
    """Whichever answer comes last, of a file without CPU time and of the history."""
    file = write_large(1_000)
    for arguments in ([file], ["-n", TARGET]):
        server, address = host.serve(*arguments)
        for slow in ("/api/flame", "/api/table", "/api/list", "/api/worth"):
            delay = f"""const real = window.fetch;
                window.fetch = async (url) => {{
                  if (url.startsWith("{slow}")) await new Promise((done) => setTimeout(done, 300));
                  return real(url);
                }};"""
            script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": delay})
            page = Page(browser, address)
            expect(len(page.rows()) > 2 and len(page.texts(".row")) > 1, True, f"the page where {slow} is the last answer")
            browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})
        server.terminate()
        server.wait(timeout=HANG_GUARD)
    file.unlink()


def check_strangers(browser, address: str) -> None:
    """A page of another site reads nothing: not by fetch, frame, script or form."""
    base = address.split("/?")[0]
    data = address.replace("/?", "/api/table?")
    expect((status_of(data), status_of(data, Origin="http://evil.example"), status_of(data, Host="evil.example:80"),
            status_of(base + "/api/table"), status_of(data, Sec_Fetch_Site="cross-site")), (200, 403, 403, 403, 403), "the answers")
    as_script = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"}
    expect((status_of(data, **as_script), status_of(base + "/tree.js", **as_script), status_of(data, form=b"a=b"),
            status_of(data, form=b"a=b", Origin=base)), (403, 403, 405, 405), "the answers to scripts and forms")
    browser.get("data:text/html,<title>stranger</title>")
    read = browser.execute_async_script("""
        const [url, done] = arguments;
        fetch(url).then((answer) => answer.text(), (error) => "refused").then(done);""", data)
    expect(read, "refused", "what a page of another site reads")
    frame = browser.execute_async_script("""
        const [url, done] = arguments;
        const frame = document.createElement("iframe");
        frame.onload = () => { try { done(frame.contentDocument.body.innerText); } catch { done("refused"); } };
        frame.src = url;
        document.body.append(frame);""", address)
    expect(frame in ("refused", ""), True, f"a frame of it, {frame!r}:")
    for script in (data, base + "/tree.js"):
        loaded = browser.execute_async_script("""
            const [url, done] = arguments;
            const script = document.createElement("script");
            script.onload = () => done("loaded");
            script.onerror = () => done("refused");
            script.src = url;
            document.body.append(script);""", script)
        expect(loaded, "refused", f"a script tag of {script}")
    browser.execute_script("""
        const form = document.createElement("form");
        Object.assign(form, {method: "post", action: arguments[0]});
        document.body.append(form);
        form.submit();""", data)
    wait_until(lambda: browser.current_url == data, "the answer to a form")
    answer = browser.find_element(By.TAG_NAME, "body").text
    expect("only GET and HEAD are answered" in answer and "rows" not in answer, True, f"the answer to a form, {answer!r},")
    for log in ("browser", "performance"):
        browser.get_log(log)


def main() -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    # Chromium leaves directories in the one for temporary files.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        os.environ["TMPDIR"] = temporary
        host = Host(pathlib.Path(temporary))
        try:
            host.start("sh", "-c", f"while :; do {host.folder}/{QUIET} 0.1; sleep 0.9; done", stdout=subprocess.DEVNULL)
            quiet_until = time.monotonic() + 6 * WINDOW
            recordings = record_phases(host)
            time.sleep(max(0, quiet_until - time.monotonic()))
            subprocess.run([host.folder / BURSTS, str(BURST)], check=True, timeout=HANG_GUARD, stdout=subprocess.DEVNULL)
            end = time.time()
            wait_until(lambda: host.json("status")["continuous"]["last_written"] > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end + 2 * WINDOW)),
                       "the window after the burst")
            server, address = host.serve("-n", TARGET)
            browser = open_browser()
            try:
                page = check_burst(host, browser, address)
                check_exports(host, page, pathlib.Path(temporary))
                check_comparison(host, page)
                check_views(host, page)
                check_sandwich_keys(page)
                check_link(page, browser)
                times = check_large_file(host, browser)
                for recording in recordings:
                    check_heat_map(host, browser, recording)
                check_hostile_names(host, browser)
                check_long_list(host, browser)
                check_orders(host, browser)
                check_console(browser, lambda url: url.scheme in ("about", "data") or url.hostname == "127.0.0.1")
                check_strangers(browser, address)
                check_pprof_over_http(host, address, pathlib.Path(temporary))
            except Exception:
                browser.save_screenshot(str(OUTPUT / "web_failed.png"))
                print(*(entry["message"] for entry in browser.get_log("browser")), sep="\n", file=sys.stderr)
                raise
            finally:
                browser.quit()
            (OUTPUT / "web_times.json").write_text(json.dumps(times, indent=1) + "\n")
            print(json.dumps(times))
            server.send_signal(signal.SIGINT)
            expect(server.wait(timeout=HANG_GUARD), 0, "the exit status after Ctrl-C")
        finally:
            host.close()


main()
