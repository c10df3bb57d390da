// The page of profctl web: the flame graph's page with a timeline, a list and more views.

import {DataSource} from "./web_data.js";
import {FlamePage} from "./flame_page.js";
import {Scope, counted, percentText} from "./numbers.js";
import {VIEWS, WEB_CHOICES, WEB_INITIAL, rangeOf, sampleFields, stackFields, textOfRange} from "./web_state.js";
import {WebList} from "./web_list.js";
import {WebTimeline, rangeText} from "./web_timeline.js";
import {button, element, showTable} from "./elements.js";
import {chooseColors} from "./flame.js";
import {decodeTree, nameOf, valueColumn} from "./tree.js";
import {searchFunctions} from "./search.js";
import {sortRows} from "./table.js";

const NO_DATA = {title: "", all: {samples: 0}, shown: {samples: 0},
                 functions: {name: [], object: [], kind: []}, nodes: {depth: [], fn: [], self: [], rest: []}};
const FORMS = ["pprof", "folded", "speedscope", "html", "svg", "gperftools"];
const MAX_TREES = 6;

export class WebPage extends FlamePage {
  constructor(place, token) {
    super(place, NO_DATA);
    this.data = new DataSource(token, {
      busy: (isBusy) => document.body.classList.toggle("busy", isBusy), error: (slot, text) => this.showError(slot, text)});
    this.data.ask("source", [], (source) => this.begin(source));
  }

  arrange(place) {
    const none = decodeTree(NO_DATA);
    Object.assign(this, {trees: new Map(), errors: new Map(), history: {groups: [], windows: []}, around: {callers: none, callees: none}});
    this.timeline = new WebTimeline({
      choose: (range) => this.update({range: textOfRange(range), zoom: ""}),
      compare: (range) => this.update({base: textOfRange(range), view: "diff"}),
      zoom: (span) => this.update({span: textOfRange(span)}, {replace: true}),
      heat: () => this.update({heat: !this.state.heat}),
      hover: (text) => { this.times.textContent = text || this.rangesText(); }});
    this.list = new WebList((target, isMore) => this.chooseTarget(target, isMore), (filter) => this.update({filter}, {replace: true}));
    this.names = button("Full names", "Whole names (l)", () => this.switchNames());
    this.idle = button("Idle threads", "Threads that wait for work all the time, too", () => this.update({idle: !this.state.idle, zoom: ""}));
    this.views = Object.entries(VIEWS).map(([view, name], i) => button(name, name + " (" + (i + 1) + ")", () => this.update({view})));
    this.sides = {callers: this.makeSide("callers"), callees: this.makeSide("callees")};
    this.side = this.sides.callees;
    this.sandwich = element("div.sandwich", {}, this.sides.callers.box, this.sides.callees.box);
    this.lines = element("section.functions.wide", {"aria-label": "Source lines"});
    for (const name of ["times", "error", "worth", "exports"]) this[name] = element("div." + name);
    this.error.role = "alert";
    this.past = element("section.past", {}, this.timeline.box, element("div.tools", {}, ...this.timeline.tools,
      button("Compare with this", "Another range is compared with this one (b)", () => this.setBase()),
      this.times), this.timeline.legend);
    place.append(
      element("header", {}, this.heading, this.scopeText, element("div.tools", {role: "toolbar"},
        element("span.views", {}, ...this.views), this.search, this.match, this.icicle, this.color, this.names, this.idle, this.withTable, this.all,
        button("Reload", "Read what is new (r)", () => this.readAgain()))),
      this.past, this.error, this.crumbs, this.chips,
      element("main", {}, this.list.box, this.picture.box, this.sandwich, this.lines, this.table.box),
      element("footer", {}, this.details, element("div.below", {}, this.legend, this.exports), this.worth));
  }

  makeSide(direction) {
    const side = this.makePicture("Flame graph of the " + direction, (node) => this.update({fn: node === 0 ? "" : nameOf(side.tree, node)}));
    side.box.addEventListener("focus", () => { this.side = side; });
    return side;
  }

  get active() {
    return this.state.view === "sandwich" ? this.side : this.picture;
  }

  get shownSides() {
    return this.state.view === "sandwich" ? this.sides : {};
  }

  get form() {
    return [WEB_INITIAL, WEB_CHOICES];
  }

  begin(source) {
    this.source = source;
    this.heading.textContent = source.title;
    document.title = source.title + " - profd";
    this.isHistory = source.kind === "history";
    this.past.hidden = !this.isHistory;
    this.read();
  }

  // A file may have no times.
  read() {
    this.data.ask("timeline", [], (timeline) => {
      this.history = timeline;
      const {windows: [first], since, until} = timeline;
      this.past.hidden = !first && !this.isHistory;
      this.timeline.show(timeline, this.palette);
      if (!first && this.isHistory) this.showError("timeline", "The history has no windows: is continuous mode on? (profctl status)");
      else if (since && this.state.range === "") this.update({range: since + "-" + until}, {replace: true});
      else this.apply({});
    });
  }

  readAgain() {
    this.trees.clear();
    this.data.slots.clear();
    this.read();
  }

  apply(change) {
    const {view, table, range, base, span, target, heat, names, idle, filter} = this.state;
    for (const slot of ["diff", "lines", "callers", "callees"]) if (slot !== view && !this.shownSides[slot]) this.forget(slot);
    if (this.source && (!this.isHistory || range !== "")) this.ask();
    this.picture.box.hidden = view !== "flame" && view !== "diff";
    this.sandwich.hidden = view !== "sandwich";
    this.lines.hidden = view !== "lines";
    super.apply(change);
    this.table.box.hidden = !table && view !== "table" && view !== "diff";
    this.table.box.classList.toggle("wide", view === "table");
    this.views.forEach((one, i) => one.ariaPressed = Object.keys(VIEWS)[i] === view);
    this.showSides(change.view !== undefined || change.zoom !== undefined);
    this.timeline.mark(rangeOf(range), rangeOf(base), rangeOf(span), heat);
    this.times.textContent = this.rangesText();
    this.list.mark(target, filter);
    this.names.ariaPressed = names === "full";
    this.idle.ariaPressed = idle;
    this.idle.hidden = !idle && !this.json?.idle;
  }

  rangesText() {
    const [range, base] = [rangeOf(this.state.range), rangeOf(this.state.base)];
    const {untimed} = this.history;
    return (range ? rangeText(range) : "") + (base ? ", compared with " + rangeText(base) : "") +
        (untimed ? ", " + counted(untimed, "later sample") + " without time" : "");
  }

  ask() {
    const {state, data} = this;
    const samples = sampleFields(state);
    const stacks = [...samples, ...stackFields(state)];
    this.stacks = stacks;
    this.askFlame(stacks);
    this.exports.replaceChildren("Export: ", ...FORMS.map((form) =>
      element("a", {href: data.address("export", [...stacks, ["form", form]]), text: form})));
    data.ask("table", stacks, ({rows: functions}) => this.take({functions}));
    data.ask("list", sampleFields({...state, target: []}), (list) => {
      this.listed = list;
      this.showList();
    });
    data.ask("worth", samples, ({parts}) => { this.worth.textContent = parts.join(" · "); });
    if (state.view === "diff") this.askDifference(stacks);
    const around = state.fn || this.functions?.[0].name;
    if (!around) return;
    const fields = [...stacks, ["around", around]];
    if (state.view === "lines") data.ask("lines", fields, (json) => this.showLines(around, json));
    for (const [direction, side] of Object.entries(this.shownSides)) {
      data.ask(direction, [...fields, ["direction", direction]], (json) => {
        this.around[direction] = decodeTree(json);
        side.current = 0;
        this.showSides(true);
      }, "flame");
    }
  }

  take(answer) {
    Object.assign(this, answer);
    this.apply({});
  }

  // A tree from which nothing was left out has all that a zoom can show.
  askFlame(fields) {
    const {zoom} = this.state;
    const whole = this.trees.get(this.data.address("flame", fields));
    const wanted = zoom === "" || (whole && !whole.left_out) ? fields : [...fields, ["zoom", zoom]];
    const address = this.data.address("flame", wanted);
    const known = this.trees.get(address);
    if (known) {
      this.data.slots.set("flame", address);
      this.takeTree(known);
      return;
    }
    this.data.ask("flame", wanted, (json) => {
      if (this.trees.size === MAX_TREES) this.trees.delete(this.trees.keys().next().value);
      this.trees.set(address, json);
      this.apply({});
      performance.mark("profd-shown");
    });
  }

  takeTree(json) {
    if (this.json === json) return;
    Object.assign(this, {json, scope: new Scope(json), whole: decodeTree(json), isNew: true});
    this.scopeText.textContent = this.scope.text +
        (json.left_out && this.state.zoom === "" ? ", " + counted(json.left_out, "smaller node") + " left out: zoom shows more" : "");
    this.showList();
  }

  // Its filters are those of the request.
  chooseTree() {
    const {whole: tree, isNew = true} = this;
    Object.assign(this, {tree, isNew: false});
    return isNew;
  }

  chooseColors() {
    const {palette: {more, less, small}, difference} = this;
    if (this.state.view !== "diff" || !difference) return super.chooseColors();
    const changes = new Map(difference.map(({name, total_change: points}) => [name, points]));
    const shade = (points) => Math.abs(points) < 0.1 ? small :
        `color-mix(in oklab, ${points > 0 ? more : less} ${Math.min(30 + 7 * Math.abs(points), 100)}%, ${small})`;
    return {
      colorOf: (fn) => shade(changes.get(this.tree.functions.name[fn]) ?? 0),
      legend: [{name: "larger share than before", color: more}, {name: "smaller share", color: less}, {name: "no change", color: small}]};
  }

  readPalette() {
    super.readPalette();
    this.timeline.show(this.history, this.palette);
  }

  // profctl has all stacks of a pruned tree.
  showMatches(found) {
    const {data, stacks, state: {q, zoom}} = this;
    if (!stacks) return;
    const fields = [...stacks, ["search", q], ["zoom", zoom]];
    if (data.slots.get("search") !== data.address("search", fields)) this.matched = undefined;
    if (!found.isMatch || !this.whole.leftOut) this.forget("search");
    else data.ask("search", fields, ({matched}) => this.take({matched}));
    super.showMatches(found);
  }

  // By profctl's own sums, of all functions.
  rows() {
    const all = this.functions ?? [];
    const {isMatch} = searchFunctions({name: all.map(({name}) => name)}, this.state.q);
    return sortRows(all.filter((_, i) => !isMatch || isMatch[i]), this.state.sort);
  }

  showTableLater() {
    if (this.state.view !== "diff") return super.showTableLater();
    const share = (side, otherwise) => (side ? percentText(side.self_percent) : otherwise);
    showTable(this.table.box, ["Before", "Now", "Change", "Function"], (this.difference ?? []).map((row) => [
      share(row.base, "new"), share(row.new, "gone"), (row.change > 0 ? "+" : "") + row.change.toFixed(1),
      button(row.name, "", () => super.chooseFunction(row.name))]));
  }

  chooseFunction(name) {
    if (["sandwich", "lines"].includes(this.state.view)) this.update({fn: name});
    else super.chooseFunction(name);
  }

  entriesOf(name, isOfLabel) {
    const entries = super.entriesOf(name, isOfLabel);
    if (!isOfLabel) {
      entries.splice(2, 1, ["Callers and callees", () => this.update({view: "sandwich", fn: name})],
                     ["Source lines", () => this.update({view: "lines", fn: name})]);
    }
    return entries;
  }

  chooseTarget(target, isMore) {
    const others = this.state.target.filter((one) => one !== target);
    const isAdded = others.length === this.state.target.length;
    this.update({target: [...(isMore ? others : []), ...(isAdded ? [target] : [])], zoom: ""});
  }

  // The steps of a zoom are names.
  switchNames() {
    this.update({names: this.state.names === "full" ? "short" : "full", zoom: ""});
  }

  // The second time there is none any more.
  setBase() {
    const {range, base} = this.state;
    this.update({base: range === base ? "" : range});
  }

  askDifference(stacks) {
    const {base} = this.state;
    if (base === "") {
      this.difference = null;
      this.forget("diff", "Choose what to compare with: drag with Shift, or press b");
    } else this.data.ask("diff", [...stacks, ...sampleFields({range: base, target: []}, "base_")], ({rows: difference}) => this.take({difference}));
  }

  // Callers above and callees below, whatever way the flame graph is turned.
  showSides(scrolls) {
    const {palette, state} = this;
    for (const [direction, side] of Object.entries(this.shownSides)) {
      const tree = this.around[direction];
      const values = valueColumn(tree, this.scope.hasCpu);
      const {colorOf} = chooseColors(tree, values, state.color, palette);
      const {isMatch} = searchFunctions(tree.functions, state.q);
      side.show(tree, values, 0, {palette, colorOf, isMatch, isIcicle: direction === "callees"}, scrolls);
    }
  }

  showLines(name, {lines}) {
    const share = (value) => (value.samples > 0 ? this.scope.shareText(value) : "");
    const files = new Set(lines.map(({file}) => file));
    showTable(this.lines, ["Self", "Total", "Line", name + " " + [...files].join(", ")], lines.map((line) => [
      share(line.self), share(line.total), String(line.line || "?"), element("code", {text: line.text ?? line.file})]));
  }

  showList() {
    if (!this.listed) return;
    const {durationNs} = this.scope;
    this.list.show(this.listed, (value) => (durationNs > 0 ? percentText(100 * value.cpu_ns / durationNs) : this.scope.shareText(value)),
                   this.history.groups);
  }

  // And an answer under way.
  forget(slot, error = "") {
    this.data?.slots.delete(slot);
    this.showError(slot, error);
  }

  showError(slot, text) {
    this.errors.set(slot, text);
    this.error.textContent = [...new Set(this.errors.values())].filter(Boolean).join("; ");
  }

  reset() {
    super.reset({target: [], fn: "", filter: "", range: this.isHistory ? this.state.range : ""});
  }

  showChips() {
    super.showChips();
    this.chips.append(...this.state.target.map((one) => button(one.replace(":", " ") + " ✕", "Remove", () => this.chooseTarget(one, true))));
  }

  // A sandwich is of the hottest function at first.
  get outer() {
    const {view, fn} = this.state;
    return view === "sandwich" && fn !== "" ? {fn: ""} : super.outer;
  }

  onCommandKey(key) {
    const commands = {f: () => this.list.filter.focus(), b: () => this.setBase(), r: () => this.readAgain(), h: () => this.timeline.box.focus(),
      g: this.timeline.on.heat, l: () => this.switchNames()};
    this.views.forEach((view, i) => { commands[i + 1] = () => view.click(); });
    if (!commands[key]) return super.onCommandKey(key);
    commands[key]();
    return true;
  }
}
