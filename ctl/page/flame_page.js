// The page of one tree: its flame graph with search, table, menu and keys.
//
// All that is shown follows from the tree and a state (state.js), which is in the URL.

import {CHOICES, INITIAL, fragmentOf, stateOf} from "./state.js";
import {Menu, button, element, showLegend} from "./elements.js";
import {FunctionTable, functionRows} from "./table.js";
import {FlamePicture} from "./picture.js";
import {KINDS, LABEL, callersOf, decodeTree, filterFunctions, isLabel, nameOf, nodeAt, pathOf, valueColumn} from "./tree.js";
import {Scope, counted, percentText} from "./numbers.js";
import {chooseColors} from "./flame.js";
import {patternOf, searchFunctions, sumMatches} from "./search.js";

const KEYS_TEXT = "Arrows move, Enter zooms, Escape shows all again, / searches, n and N go to the " +
    "next match, m opens the menu, i turns the picture, c changes colours, t shows the table, ? these keys; buttons name theirs";

export class FlamePage {
  constructor(place, json) {
    this.scope = new Scope(json);
    this.whole = decodeTree(json);
    this.menu = new Menu();
    this.build(place, json);
    this.readPalette();
    this.readFragment();
    addEventListener("hashchange", () => this.followFragment());
    document.addEventListener("keydown", (event) => this.onKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.readPalette();
      this.apply({});
    });
  }

  build(place, {title, left_out: leftOut}) {
    document.title = title + " - profd";
    this.search = element("input", {
      type: "search", placeholder: "Search: regular expression (/)", "aria-label": "Search", spellcheck: "false",
      oninput: () => this.update({q: this.search.value}, {replace: true})});
    this.match = element("output.match");
    this.icicle = this.toggle("icicle", "Icicle", "The root at the top (i)");
    this.withTable = this.toggle("table", "Table", "Functions beside the picture (t)");
    this.color = element("select", {
      "aria-label": "Colours", title: "Colours (c)", onchange: () => this.update({color: this.color.value})},
      ...CHOICES.color.map((value) => element("option", {value, text: "Colours by " + value})));
    this.crumbs = element("nav.crumbs", {"aria-label": "Zoomed to"});
    this.chips = element("div.chips");
    this.details = element("div.details", {role: "status"});
    this.legend = element("div.legend");
    this.picture = this.makePicture("Flame graph", (node) => this.zoom(node));
    this.table = new FunctionTable({
      choose: (name) => this.chooseFunction(name),
      sort: (sort) => this.update({sort}),
      menu: (x, y, name) => this.menu.open(x, y, name, this.entriesOf(name))});
    this.heading = element("h1", {text: title});
    this.scopeText = element("p", {text: this.scope.text});
    this.all = button("Show all", "Without zoom, search and filters", () => this.reset());
    this.arrange(place, leftOut);
  }

  toggle(key, text, title) {
    return button(text, title, () => this.update({[key]: !this.state[key]}));
  }

  // `zoom(node)`: what a click does, and Enter.
  makePicture(label, zoom) {
    const picture = new FlamePicture(label + ". " + KEYS_TEXT, {
      hover: (node) => this.showDetails(node < 0 ? picture.current : node, picture.tree),
      zoom,
      menu: (x, y, node) => this.openMenu(x, y, node, picture)});
    return picture;
  }

  // The picture that keys are for.
  get active() {
    return this.picture;
  }

  arrange(place, leftOut) {
    const note = leftOut > 0 ? element("p", {text:
        counted(leftOut, "smaller node") + " left out; their samples count in the nodes above"}) : "";
    place.append(
      element("header", {}, this.heading, this.scopeText, note,
        element("div.tools", {role: "toolbar"}, this.search, this.match, this.icicle, this.color,
          this.withTable, this.all)),
      this.crumbs, this.chips,
      element("main", {}, this.picture.box, this.table.box),
      element("footer", {}, this.details, this.legend));
  }

  readPalette() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue("--" + name).trim();
    this.palette = {font: "12px " + read("code"), libraries: [...KINDS.slice(0, LABEL), "rose", "yellow", "orange"].map(read)};
    for (const name of [...KINDS, "rose", "yellow", "small", "match", "text", "faint", "more", "less"]) this.palette[name] = read(name);
  }

  get form() {
    return [INITIAL, CHOICES];
  }

  readFragment() {
    this.state = stateOf(location.hash, ...this.form);
    this.apply({zoom: this.state.zoom});
  }

  // Changes the state, and the URL with it: typing replaces the link, all else adds one.
  update(change, {replace = false} = {}) {
    this.state = {...this.state, ...change};
    this.ownFragment = "#" + fragmentOf(this.state, ...this.form);
    if (replace) location.replace(this.ownFragment);
    else location.hash = this.ownFragment;
    this.apply(change);
  }

  followFragment() {
    if ((location.hash || "#") === this.ownFragment) return;
    this.ownFragment = location.hash;
    this.readFragment();
  }

  reset(more) {
    this.update({zoom: "", q: "", focus: "", hide: [], callers: "", ...more});
  }

  // Shows the state, of which `change` is new.
  apply(change) {
    const {state} = this;
    const isNew = this.chooseTree() || change.zoom !== undefined;
    this.values = valueColumn(this.tree, this.scope.hasCpu);
    this.top = nodeAt(this.tree, state.zoom);
    if (isNew) this.picture.current = this.top;
    const found = searchFunctions(this.tree.functions, state.q);
    this.isMatch = found.isMatch;
    const {colorOf, legend} = this.chooseColors();
    if (this.search.value !== state.q) this.search.value = state.q;
    this.icicle.ariaPressed = state.icicle;
    this.withTable.ariaPressed = state.table;
    this.color.value = state.color;
    this.table.box.hidden = !state.table;
    this.showMatches(found);
    this.showCrumbs();
    this.showChips();
    showLegend(this.legend, legend);
    const look = {palette: this.palette, colorOf, isMatch: this.isMatch, isIcicle: state.icicle};
    this.picture.show(this.tree, this.values, this.top, look, isNew || change.icicle !== undefined);
    this.showTableLater();
  }

  chooseColors() {
    return chooseColors(this.tree, this.values, this.state.color, this.palette);
  }

  // True: the tree of the state is another one than before.
  chooseTree() {
    const {hide, focus, callers} = this.state;
    const key = JSON.stringify([hide, focus, callers]);
    if (key === this.treeKey) return false;
    this.treeKey = key;
    const {name, kind} = this.whole.functions;
    const named = (names) => Uint8Array.from(name, (one, i) => names.includes(one) && kind[i] !== LABEL);
    this.tree = this.whole;
    if (hide.length !== 0 || focus !== "") this.tree = filterFunctions(this.tree, named(hide), focus && named([focus]));
    if (callers !== "") this.tree = callersOf(this.tree, named([callers]));
    return true;
  }

  showDetails(node, tree) {
    const {scope, top, values} = this;
    const {object, kind} = tree.functions;
    const fn = tree.fn[node];
    const place = node === 0 || isLabel(tree, node) ? [] : [object[fn], KINDS[kind[fn]]].filter(Boolean);
    let text = scope.valueText({samples: tree.total[node], cpu_ns: tree.totalCpu[node]});
    if (tree.self[node] > 0) text += ", self " + scope.valueText({samples: tree.self[node], cpu_ns: tree.selfCpu[node]});
    if (tree === this.tree && top !== 0 && values[top] > 0) text += ", " + percentText(100 * values[node] / values[top]) + " of " + nameOf(tree, top);
    if (tree.rest[node] > 0) text += ", " + counted(tree.rest[node], "sample") + " in smaller nodes left out";
    this.details.replaceChildren(element("b", {text: nameOf(tree, node)}), " " + text + " ", element("span", {text: place.join(", ")}));
  }

  showMatches({isMatch, error}) {
    this.search.setCustomValidity(error);
    this.search.title = error;
    this.match.textContent = error ? "no regular expression" : "";
    if (!isMatch) return;
    const sum = sumMatches(this.tree, this.top, isMatch);
    const value = this.matched ?? sum;
    // Nodes that were left out may match, too.
    this.match.textContent = this.scope.shareText(value, this.whole.leftOut && value === sum) + " in " + counted(sum.nodes, "node");
    this.match.title = this.scope.amountText(value);
  }

  showCrumbs() {
    const add = (node) => this.crumbs.prepend(button(nameOf(this.tree, node), "Zoom here", () => this.zoom(node)));
    this.crumbs.replaceChildren();
    for (let at = this.top; at >= 0; at = this.tree.parent[at]) add(at);
    this.crumbs.lastChild.ariaCurrent = "true";
    this.crumbs.scrollLeft = this.crumbs.scrollWidth;
  }

  // One for each filter; a click removes it.
  showChips() {
    const {hide, focus, callers} = this.state;
    const chip = (text, change) => button(text + " ✕", "Remove", () => this.update({zoom: "", ...change}));
    this.chips.replaceChildren(
      ...hide.map((name) => chip("without " + name, {hide: hide.filter((one) => one !== name)})),
      focus && chip("only samples with " + focus, {focus: ""}), callers && chip("callers of " + callers, {callers: ""}));
  }

  // After the picture, which people wait for.
  showTableLater() {
    if (!this.state.table || this.tableTimer) return;
    this.tableTimer = setTimeout(() => {
      this.tableTimer = 0;
      this.table.show(this.rows(), this.scope, this.state.sort);
    });
  }

  rows() {
    return functionRows(this.tree, this.top, this.scope, this.state.sort, this.isMatch, this.whole.leftOut);
  }

  chooseFunction(name) {
    const pattern = patternOf(name);
    this.update({q: this.state.q === pattern ? "" : pattern});
  }

  zoom(node) {
    this.update({zoom: pathOf(this.tree, node)});
  }

  openMenu(x, y, node, {tree, on}) {
    const name = nameOf(tree, node);
    const entries = node === 0 ? [] : this.entriesOf(name, isLabel(tree, node));
    this.menu.open(x, y, name, [["Zoom here", () => on.zoom(node)], ...entries]);
  }

  entriesOf(name, isOfLabel = false) {
    // Plain http has no navigator.clipboard.
    const copy = ["Copy the name", () => {
      this.details.textContent = name;
      getSelection().selectAllChildren(this.details);
      document.execCommand("copy");
    }];
    if (isOfLabel) return [copy];
    const hide = [...new Set([...this.state.hide, name])];
    return [
      ["Only samples with it", () => this.update({focus: name, zoom: ""})],
      ["Hide it", () => this.update({hide, zoom: ""})],
      ["Its callers", () => this.update({callers: name, zoom: ""})],
      ["Search it", () => this.update({q: patternOf(name)})],
      copy];
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.menu.isOpen) return;
    const isSearch = event.target === this.search;
    const isField = ["INPUT", "SELECT"].includes(event.target.tagName);
    if (event.key === "Escape") {
      if (isSearch && this.state.q !== "") this.update({q: ""}, {replace: true});
      else if (isField) this.active.box.focus();
      else if (this.outer) this.update(this.outer);
      else return;
    } else if (isSearch && event.key === "Enter") {
      this.active.box.focus();
      this.goToMatch(1);
    } else if (isField || !this.onCommandKey(event.key)) {
      return;
    }
    event.preventDefault();
  }

  // The change of the state that shows all again; null: it is shown.
  get outer() {
    return this.top === 0 ? null : {zoom: ""};
  }

  // Letters count everywhere, the others where the picture has the focus.
  onCommandKey(key) {
    const {active, state} = this;
    const everywhere = {
      "/": () => this.search.focus(),
      i: () => this.icicle.click(),
      c: () => this.update({color: state.color === "kind" ? "library" : "kind"}),
      t: () => this.withTable.click(),
      n: () => this.goToMatch(1),
      N: () => this.goToMatch(-1),
      m: () => active.openMenu(),
      "?": () => { this.details.textContent = KEYS_TEXT; },
    };
    const ofPicture = {
      ArrowUp: () => active.step(true),
      ArrowDown: () => active.step(false),
      ArrowLeft: () => active.stepAside(-1),
      ArrowRight: () => active.stepAside(1),
      Home: () => active.move(active.top),
      Enter: () => active.on.zoom(active.current),
    };
    const hasFocus = [active.box, document.body].includes(document.activeElement);
    const command = everywhere[key] ?? (hasFocus ? ofPicture[key] : undefined);
    command?.();
    return command !== undefined;
  }

  // In the order of the tree, of the nodes that are wide enough to be seen.
  goToMatch(direction) {
    const {active} = this;
    const {tree, top, look: {isMatch}} = active;
    if (!isMatch) return;
    const nodes = [];
    for (let i = Math.max(top, 1); i < tree.end[top]; ++i) {
      if (isMatch[tree.fn[i]] && active.boxOf(i)) nodes.push(i);
    }
    if (nodes.length === 0) return;
    if (direction < 0) nodes.reverse();
    active.move(nodes.find((node) => (node - active.current) * direction > 0) ?? nodes[0]);
  }
}
