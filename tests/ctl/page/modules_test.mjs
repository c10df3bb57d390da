// The modules of ctl/page that need no browser, against sums over plain lists of stacks:
//
//     node modules_test.mjs ctl/page

import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {pathToFileURL} from "node:url";
import test from "node:test";

const folder = process.argv[2];
const names = readdirSync(folder).filter((name) => name.endsWith(".js"));

// node takes .js files for modules only where a package.json says so.
const copy = mkdtempSync(join(tmpdir(), "profd-page-"));
process.on("exit", () => rmSync(copy, {recursive: true}));
writeFileSync(join(copy, "package.json"), '{"type":"module"}');
for (const name of names) copyFileSync(join(folder, name), join(copy, name));
const load = (name) => import(pathToFileURL(join(copy, name)).href);
const tree = await load("tree.js");
const search = await load("search.js");
const state = await load("state.js");
const numbers = await load("numbers.js");
const flame = await load("flame.js");
const table = await load("table.js");
const timeline = await load("web_timeline.js");
const webState = await load("web_state.js");

// Numbers between 0 and `below`, the same in each run.
function generator(seed) {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * below);
  };
}

// {stack: [outermost, ...], count}
function randomStacks(seed, count = 300, functions = 25) {
  const random = generator(seed);
  return Array.from({length: count}, () => ({
    stack: Array.from({length: 1 + random(12)}, () => "f" + random(functions)),
    count: 1 + random(9)}));
}

const PERIOD = 10_101_010;

// In the form of ctl/views/flame_json.h.
function jsonOf(stacks) {
  const root = {children: new Map(), self: 0, total: 0};
  for (const {stack, count} of stacks) {
    let at = root;
    at.total += count;
    for (const name of stack) {
      if (!at.children.has(name)) at.children.set(name, {name, children: new Map(), self: 0, total: 0});
      at = at.children.get(name);
      at.total += count;
    }
    at.self += count;
  }
  const functions = [...new Set(stacks.flatMap(({stack}) => stack))];
  const nodes = {depth: [], fn: [], self: [], rest: []};
  const visit = (node, depth) => {
    nodes.depth.push(depth);
    nodes.fn.push(functions.indexOf(node.name));
    nodes.self.push(node.self);
    nodes.rest.push(0);
    sorted(node).forEach((child) => visit(child, depth + 1));
  };
  const sorted = (node) => [...node.children.values()].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
  sorted(root).forEach((child) => visit(child, 0));
  const all = {samples: root.total, cpu_ns: root.total * PERIOD};
  return {title: "test", all, shown: all, period_ns: PERIOD, objects: ["", "libc.so.6"],
          functions: {name: functions, object: functions.map((_, i) => i % 2), kind: functions.map((_, i) => i % 4)},
          nodes};
}

// By the path from the outermost function on.
function pathsOfTree(one) {
  const paths = new Map();
  const path = [];
  for (let i = 1; i < one.count; ++i) {
    path.length = one.depth[i] - 1;
    path.push(tree.nameOf(one, i));
    paths.set(path.join("/"), one.total[i]);
    assert.equal(one.totalCpu[i], one.total[i] * PERIOD);
  }
  return paths;
}

function pathsOfStacks(stacks) {
  const paths = new Map();
  for (const {stack, count} of stacks) {
    for (let i = 1; i <= stack.length; ++i) {
      const path = stack.slice(0, i).join("/");
      paths.set(path, (paths.get(path) ?? 0) + count);
    }
  }
  return paths;
}

const byName = (map) => new Map([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
const expectPaths = (one, stacks) => assert.deepEqual(byName(pathsOfTree(one)), byName(pathsOfStacks(stacks)));
const chosen = (one, ...wanted) => Uint8Array.from(one.functions.name, (name) => wanted.includes(name));
const sumOf = (stacks) => stacks.reduce((sum, {count}) => sum + count, 0);

test("a tree has the sums of its stacks", () => {
  for (let seed = 1; seed <= 5; ++seed) {
    const stacks = randomStacks(seed);
    const one = tree.decodeTree(jsonOf(stacks));
    expectPaths(one, stacks);
    assert.equal(one.total[0], sumOf(stacks));
    assert.equal(one.end[0], one.count);
  }
});

test("samples of nodes that were left out count in the nodes above", () => {
  const json = jsonOf([{stack: ["a", "b"], count: 5}]);
  json.nodes.rest[0] = 3;
  json.shown = json.all = {samples: 10, cpu_ns: 10 * PERIOD};
  const one = tree.decodeTree(json);
  assert.deepEqual([...one.total], [10, 8, 5]);
  assert.deepEqual([...one.self], [2, 0, 5]);
});

test("focus, hide and callers have the sums of the stacks that they leave", () => {
  for (let seed = 1; seed <= 5; ++seed) {
    const stacks = randomStacks(seed);
    const one = tree.decodeTree(jsonOf(stacks));
    expectPaths(tree.filterFunctions(one, chosen(one), chosen(one, "f3")), stacks.filter(({stack}) => stack.includes("f3")));
    const without = stacks.map(({stack, count}) => ({stack: stack.filter((name) => name !== "f3" && name !== "f4"), count}));
    expectPaths(tree.filterFunctions(one, chosen(one, "f3", "f4"), null), without);
    expectPaths(tree.filterFunctions(one, chosen(one, "f3"), chosen(one, "f3", "f5")),
                stacks.filter(({stack}) => stack.includes("f5"))
                    .map(({stack, count}) => ({stack: stack.filter((name) => name !== "f3"), count})));
    const callers = stacks.filter(({stack}) => stack.includes("f3"))
        .map(({stack, count}) => ({stack: stack.slice(0, stack.indexOf("f3") + 1).reverse(), count}));
    expectPaths(tree.callersOf(one, chosen(one, "f3")), callers);
  }
});

test("the table counts a recursive function once", () => {
  const stacks = randomStacks(7);
  const one = tree.decodeTree(jsonOf(stacks));
  const rows = tree.sumFunctions(one, 0);
  assert.equal(rows.length, one.functions.name.length);
  for (const row of rows) {
    const name = one.functions.name[row.fn];
    assert.equal(row.total.samples, sumOf(stacks.filter(({stack}) => stack.includes(name))), name);
    assert.equal(row.self.samples, sumOf(stacks.filter(({stack}) => stack.at(-1) === name)), name);
  }
});

test("the table of a pruned tree has the sums that came with it, and says what is too small", () => {
  const json = {...jsonOf([{stack: ["a", "b"], count: 5}, {stack: ["c"], count: 2}]), left_out: 2};
  json.sums = [[1, 9, PERIOD, 9 * PERIOD], [6, 8, 6 * PERIOD, 8 * PERIOD], [3, 3, 3 * PERIOD, 3 * PERIOD]];
  json.shown = json.all = {samples: 20, cpu_ns: 20 * PERIOD};
  const one = tree.decodeTree(json);
  assert.equal(one.leftOut, 2);
  const scope = new numbers.Scope(json);
  const rowsOf = (of, top) => table.functionRows(of, top, scope, "self", null, one.leftOut)
      .map(({name, self, total, total_percent, isLeast}) => [name, self.samples, total.samples, total.cpu_ns, total_percent, Boolean(isLeast)]);
  assert.deepEqual(rowsOf(one, 0), [["b", 6, 8, 8 * PERIOD, 40, false], ["c", 3, 3, 3 * PERIOD, 15, false], ["a", 1, 9, 9 * PERIOD, 45, false]]);
  // A part, and what filters leave, have the nodes alone.
  assert.deepEqual(rowsOf(one, tree.nodeAt(one, tree.pathOf(one, 1))),
                   [["b", 5, 5, 5 * PERIOD, 25, true], ["a", 0, 5, 5 * PERIOD, 25, true]]);
  assert.deepEqual(rowsOf(tree.filterFunctions(one, chosen(one), chosen(one, "c")), 0), [["c", 2, 2, 2 * PERIOD, 10, true]]);
  assert.equal(numbers.percentText(12.5, true), "≥ 12.5 %");
});

test("the share of a search counts each sample once", () => {
  const stacks = randomStacks(3);
  const one = tree.decodeTree(jsonOf(stacks));
  const {isMatch} = search.searchFunctions(one.functions, "^f[12]$");
  const expected = sumOf(stacks.filter(({stack}) => stack.some((name) => name === "f1" || name === "f2")));
  assert.equal(search.sumMatches(one, 0, isMatch).samples, expected);
  assert.equal(search.sumMatches(one, 0, isMatch).cpu_ns, expected * PERIOD);
  // Below a match, everything matches.
  let match = 1;
  while (!isMatch[one.fn[match]] || one.end[match] === match + 1) ++match;
  assert.equal(search.sumMatches(one, match + 1, isMatch).samples, one.total[match + 1]);
});

test("a search takes regular expressions, and says what is wrong with others", () => {
  const functions = {name: ["std::map::find", "operator()", "日本", "a.b"]};
  const matches = (pattern) => [...search.searchFunctions(functions, pattern).isMatch];
  assert.deepEqual(matches("map|日"), [1, 0, 1, 0]);
  assert.deepEqual(matches("\\-|find"), [1, 0, 0, 0]);
  assert.equal(search.searchFunctions(functions, "").isMatch, null);
  assert.notEqual(search.searchFunctions(functions, "(").error, "");
  for (const name of functions.name) {
    assert.deepEqual(matches(search.patternOf(name)), functions.name.map((one) => +(one === name)));
  }
});

test("boxes lie inside those of their callers, and their widths are the shares", () => {
  const one = tree.decodeTree(jsonOf(randomStacks(5)));
  const values = tree.valueColumn(one, true);
  for (const top of [0, 1, one.end[1]]) {
    const rows = flame.layOut(one, values, top, 1000);
    const place = new Map();
    rows.forEach(({node, x, width}) => node.forEach((id, i) => place.set(id, [x[i], width[i]])));
    assert.deepEqual(place.get(top), [0, 1000]);
    rows.forEach(({node, x, width}, row) => node.forEach((id, i) => {
      if (i > 0) assert.ok(x[i] >= x[i - 1] + width[i - 1] - 1e-6);
      const found = flame.boxAt(rows, row, x[i] + width[i] / 2);
      assert.equal(found, i);
      if (id === flame.SMALL_NODES || one.depth[id] <= one.depth[top]) return;
      assert.ok(Math.abs(width[i] - 1000 * values[id] / values[top]) < 1e-6);
      const [from, wide] = place.get(one.parent[id]);
      assert.ok(x[i] >= from - 1e-6 && x[i] + width[i] <= from + wide + 1e-6);
    }));
    assert.equal(flame.boxAt(rows, 0, 1000.5), -1);
    assert.equal(flame.boxAt(rows, 99, 10), -1);
  }
});

test("every node that is wide enough has a box, and the others share one", () => {
  const one = tree.decodeTree(jsonOf(randomStacks(11, 3000, 40)));
  const values = tree.valueColumn(one, true);
  const rows = flame.layOut(one, values, 0, 300);
  const shown = new Set(rows.flatMap(({node}) => node));
  for (let i = 1; i < one.count; ++i) assert.equal(shown.has(i), values[i] * 300 / values[0] >= 0.5);
  assert.ok(shown.has(flame.SMALL_NODES));
});

test("zoom is a path of names, which stays when the numbers change", () => {
  const stacks = randomStacks(2);
  const one = tree.decodeTree(jsonOf(stacks));
  const other = tree.decodeTree(jsonOf(stacks.map(({stack, count}, i) => ({stack, count: count + i % 7 * 20}))));
  for (let i = 0; i < one.count; ++i) {
    const path = tree.pathOf(one, i);
    assert.equal(tree.nodeAt(one, path), i);
    assert.equal(tree.pathOf(other, tree.nodeAt(other, path)), path);
  }
  assert.equal(tree.nodeAt(one, "gone"), 0);
  assert.equal(tree.nodeAt(one, tree.pathOf(one, 2) + ".gone"), 2);
});

test("the fragment of a URL has the whole state", () => {
  const all = {zoom: "a.b", q: "x|y &=#", icicle: true, color: "library", sort: "total", table: false, focus: "f<T>",
               hide: ["a;b", "c d"], callers: "日本"};
  assert.deepEqual(state.stateOf("#" + state.fragmentOf(all)), all);
  assert.equal(state.fragmentOf(state.INITIAL), "");
  assert.deepEqual(state.stateOf("#color=red&sort=&unknown=1&icicle=yes"), state.INITIAL);
});

test("the end of a long name is shown", () => {
  assert.equal(flame.fittingName("abcdef", 6), "abcdef");
  assert.equal(flame.fittingName("abcdef", 4), "…def");
  assert.equal(flame.fittingName("abcdef", 2), "");
});

test("numbers have the forms of profctl", () => {
  const scope = new numbers.Scope({duration_ns: 6e10, scope: "1 min: 4000 samples", all: {samples: 4000, cpu_ns: 4e10}});
  assert.equal(scope.text, "1 min: 4000 samples");
  assert.equal(scope.shareText({samples: 1, cpu_ns: 1e9}), "2.5 %");
  assert.equal(scope.amountText({samples: 1, cpu_ns: 1.25e9}), "1 sample, 1.25 s");
  const blocks = new numbers.Scope({noun: "block", all: {samples: 8, cpu_ns: 8e9}});
  assert.equal(blocks.amountText({samples: 2, cpu_ns: 3e9}), "2 blocks, 3.00 s");
  const times = new numbers.Scope({noun: "", all: {samples: 8, cpu_ns: 8e9}});
  assert.equal(times.amountText({samples: 2, cpu_ns: 3e9}), "3.00 s");
  const faults = new numbers.Scope({all: {samples: 8}});
  assert.equal(faults.shareText({samples: 2, cpu_ns: 0}), "25.0 %");
  for (const [seconds, text] of [[0.5, "0.50 s"], [119, "119.0 s"], [125, "2 min 5 s"], [7200, "2 h"], [90061, "1 d 1 h"]]) {
    assert.equal(numbers.timeText(seconds * 1e9), text);
  }
});

// The outermost frame names the state; the same function has the colour of its kind elsewhere.
test("wall-clock time has colours of states", () => {
  const stacks = [{stack: ["[on CPU]", "work"], count: 5}, {stack: ["[blocked]", "work", "[runnable]"], count: 4},
                  {stack: ["[runnable]", "work"], count: 3}];
  const one = tree.decodeTree(jsonOf(stacks));
  const palette = {native: "blue", kernel: "orange", runtime: "green", interpreted: "violet", rose: "rose", yellow: "yellow"};
  const {colorOf, legend} = flame.chooseColors(one, tree.valueColumn(one, true), "kind", palette);
  const shown = [];
  for (let i = 1; i < one.count; ++i) shown.push([tree.pathOf(one, i).split(".").length, tree.nameOf(one, i), colorOf(one.fn[i], i)]);
  const ofState = shown.filter(([, , color]) => color === "rose" || color === "yellow");
  assert.deepEqual(ofState, [[1, "[blocked]", "rose"], [2, "work", "rose"], [3, "[runnable]", "rose"],
                             [1, "[runnable]", "yellow"], [2, "work", "yellow"]]);
  assert.deepEqual(legend.map(({name}) => name), ["native", "kernel", "runtime", "interpreted", "[blocked]", "[runnable]"]);
  const other = tree.decodeTree(jsonOf([{stack: ["work", "[blocked]"], count: 1}]));
  assert.equal(flame.chooseColors(other, tree.valueColumn(other, true), "kind", palette).legend.length, 4);
});

test("a hundred thousand nodes are laid out", () => {
  const one = tree.decodeTree(jsonOf(randomStacks(13, 16000, 3000)));
  assert.ok(one.count > 90_000);
  const rows = flame.layOut(one, tree.valueColumn(one, true), 0, 1600);
  assert.ok(rows.flatMap(({node}) => node).length < 1600 * 2 * 13);
});

test("percent are rounded as profctl does it", () => {
  for (const [percent, text] of [[9.25, "9.2 %"], [9.75, "9.8 %"], [0.05, "0.1 %"], [9.26, "9.3 %"], [100, "100.0 %"]]) {
    assert.equal(numbers.percentText(percent), text);
  }
});

// Minutes from 100 on, with a gap after the third.
const WINDOWS = [100, 160, 220, 400].map((since) => ({since, until: since + 60, cpu_percent: 50, top: [[0, 20], [9, 10]]}));

test("a window's parts are its largest groups and the others", () => {
  assert.deepEqual(timeline.partsOf(WINDOWS[0], 3), [20, 0, 0, 30]);
  assert.deepEqual(timeline.partsOf({cpu_percent: 10, top: [[1, 12]]}, 2), [0, 12, 0]);
});

test("a range has whole windows", () => {
  assert.deepEqual(timeline.snapped(WINDOWS, {since: 150, until: 161}), {since: 100, until: 220});
  assert.deepEqual(timeline.snapped(WINDOWS, {since: 300, until: 401}), {since: 400, until: 460});
  assert.equal(timeline.snapped(WINDOWS, {since: 300, until: 350}), null);
});

test("a range moves by windows, and not beyond them", () => {
  const range = {since: 100, until: 220};
  assert.deepEqual(timeline.moved(WINDOWS, range, 1, 1), {since: 160, until: 280});
  assert.deepEqual(timeline.moved(WINDOWS, range, 0, 2), {since: 100, until: 460});
  assert.equal(timeline.moved(WINDOWS, range, -1, -1), null);
  assert.equal(timeline.moved(WINDOWS, range, 0, -2), null);
});

test("a link of profctl web has its whole state", () => {
  const all = {...webState.WEB_INITIAL, view: "diff", range: "100-220", base: "1-5", target: ["unit:a:b.service", "pid:7"], fn: "a&b", q: "x",
               names: "full", filter: "a b&c"};
  const read = state.stateOf("#" + state.fragmentOf(all, webState.WEB_INITIAL), webState.WEB_INITIAL, webState.WEB_CHOICES);
  assert.deepEqual(read, all);
  assert.deepEqual(webState.sampleFields(all), [["unit", "a:b.service"], ["pid", "7"], ["since", 100], ["until", 220]]);
  assert.deepEqual(webState.sampleFields({range: "", target: [], idle: true}), [["idle", 1]]);
  assert.deepEqual(webState.stackFields({focus: "f", hide: ["g", "h"]}), [["hide_name", "g"], ["hide_name", "h"], ["focus_name", "f"]]);
  assert.deepEqual(webState.stackFields({focus: "", hide: [], names: "full"}), [["names", "full"]]);
  for (const text of ["", "5", "5-5", "x-7", "9-3"]) assert.equal(webState.rangeOf(text), null);
});

test("the modules form one script, as profctl joins them", () => {
  const order = ["tree", "search", "state", "numbers", "elements", "table", "flame", "picture", "flame_page", "flame_file"];
  const ofFile = names.filter((name) => !name.startsWith("web"));
  assert.deepEqual(ofFile.sort(), order.map((name) => name + ".js").sort());
  const read = (name) => readFileSync(join(folder, name + ".js"), "utf8").split("\n");
  const lines = order.flatMap(read);
  for (const line of lines.filter((one) => /^(import|export)\b/.test(one))) {
    assert.match(line, /^import \{[\w, ]+\} from "\.\/[a-z_]+\.js";$|^export (const|function|async function|class) /);
  }
  const joined = join(copy, "joined.js");
  writeFileSync(joined, lines.filter((line) => !line.startsWith("import ")).map((line) => line.replace(/^export /, "")).join("\n"));
  execFileSync(process.execPath, ["--check", joined]);
  const all = names.flatMap((name) => read(name.replace(".js", "")));
  assert.doesNotMatch(all.join("\n"), /<\/?script|<!--|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b/);
});
