// The page of one tree: its flame graph with search, table, menu and keys.
//
// All that is shown follows from the tree and a state (state.js), which is in the URL.

import {CHOICES, INITIAL, fragmentOf, stateOf} from "./state.js";
import {Menu, button, copyText, element, showLegend} from "./elements.js";
import {FunctionTable, functionRows} from "./table.js";
import {FlamePicture} from "./picture.js";
import {KINDS, LABEL, callersOf, decodeTree, focusFunctions, hideFunctions, isLabel, nameOf, nodeAt, pathOf, valueColumn} from "./tree.js";
import {Scope, counted, percentText} from "./numbers.js";
import {chooseColors} from "./flame.js";
import {patternOf, searchFunctions, sumMatches} from "./search.js";

const KEYS_TEXT = "Arrows move, Enter zooms, Escape shows all again, / searches, n and N go to the " +
    "next match, m opens the menu, i turns the picture, c changes colours, t shows the table";

export class FlamePage {
  constructor(place, json) {
    this.scope = new Scope(json);
    this.whole = decodeTree(json);
    this.menu = new Menu();
    this.build(place, json);
    this.readPalette();
    this.state = this.readState();
    this.apply({zoom: this.state.zoom});
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
    this.match = element("output", {class: "match"});
    this.icicle = button("Icicle", "The root at the top (i)", () => this.update({icicle: !this.state.icicle}));
    this.color = element("select", {
      "aria-label": "Colours", title: "Colours (c)", onchange: () => this.update({color: this.color.value})},
      element("option", {value: "kind", text: "Colours by kind"}),
      element("option", {value: "library", text: "Colours by library"}));
    this.withTable = button("Table", "Functions beside the picture (t)", () => this.update({table: !this.state.table}));
    this.crumbs = element("nav", {class: "crumbs", "aria-label": "Zoomed to"});
    this.chips = element("div", {class: "chips"});
    this.details = element("div", {class: "details", role: "status"});
    this.legend = element("div", {class: "legend"});
    this.picture = new FlamePicture("Flame graph. " + KEYS_TEXT, {
      hover: (node) => this.showDetails(node < 0 ? this.picture.current : node),
      zoom: (node) => this.zoom(node),
      menu: (x, y, node) => this.openMenu(x, y, node)});
    this.table = new FunctionTable({
      choose: (name) => this.chooseFunction(name),
      sort: (sort) => this.update({sort}),
      menu: (x, y, name) => this.menu.open(x, y, name, this.entriesOf(name))});
    this.heading = element("h1", {text: title});
    this.scopeText = element("p", {text: this.scope.text()});
    this.all = button("Show all", "Without zoom, search and filters", () => this.reset());
    this.arrange(place, leftOut);
  }

  // What is where on the page.
  arrange(place, leftOut) {
    const note = leftOut > 0 ? element("p", {class: "note", text:
        counted(leftOut, "smaller node") + " left out; their samples count in the nodes above"}) : "";
    place.append(
      element("header", {}, this.heading, this.scopeText, note,
        element("div", {class: "tools", role: "toolbar"}, this.search, this.match, this.icicle, this.color,
          this.withTable, this.all)),
      this.crumbs, this.chips,
      element("main", {}, this.picture.box, this.table.box),
      element("footer", {}, this.details, this.legend));
  }

  readPalette() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue("--" + name).trim();
    this.palette = {font: "12px " + read("code"), libraries: [...KINDS.slice(0, LABEL), "library-4", "library-5", "library-6", "library-7"].map(read)};
    for (const name of [...KINDS, "small", "match", "text", "faint", "more", "less"]) {
      this.palette[name] = read(name);
    }
  }

  get form() {
    return [INITIAL, CHOICES];
  }

  readState() {
    return stateOf(location.hash, ...this.form);
  }

  // Changes the state, and the URL with it: typing replaces the link, all else adds one.
  update(change, {replace = false} = {}) {
    this.state = {...this.state, ...change};
    const fragment = "#" + fragmentOf(this.state, ...this.form);
    this.ownFragment = fragment;
    if (replace) location.replace(fragment);
    else location.hash = fragment;
    this.apply(change);
  }

  followFragment() {
    if (location.hash === this.ownFragment || (location.hash === "" && this.ownFragment === "#")) return;
    this.ownFragment = location.hash;
    this.state = this.readState();
    this.apply({zoom: this.state.zoom});
  }

  reset() {
    const {icicle, color, sort, table} = this.state;
    this.update({...INITIAL, icicle, color, sort, table});
  }

  // Shows the state, of which `change` is new.
  apply(change) {
    const {state} = this;
    const isNewTree = this.chooseTree();
    this.values = valueColumn(this.tree, this.scope.hasCpu);
    this.top = nodeAt(this.tree, state.zoom);
    if (isNewTree || change.zoom !== undefined) this.picture.current = this.top;
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
    this.picture.show(this.tree, this.values, this.top, look,
                      isNewTree || change.zoom !== undefined || change.icicle !== undefined);
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
    if (hide.length !== 0) this.tree = hideFunctions(this.tree, named(hide));
    if (focus !== "") this.tree = focusFunctions(this.tree, named([focus]));
    if (callers !== "") this.tree = callersOf(this.tree, named([callers]));
    return true;
  }

  showDetails(node, tree = this.tree) {
    const {scope} = this;
    const fn = tree.fn[node];
    const isFunction = node !== 0 && !isLabel(tree, node);
    const place = isFunction ? [tree.functions.object[fn], KINDS[tree.functions.kind[fn]]].filter(Boolean) : [];
    let text = scope.valueText({samples: tree.total[node], cpu_ns: tree.totalCpu[node]});
    if (tree.self[node] > 0) text += ", self " + scope.valueText({samples: tree.self[node], cpu_ns: tree.selfCpu[node]});
    if (tree === this.tree && this.top !== 0 && this.values[this.top] > 0) {
      text += ", " + percentText(100 * this.values[node] / this.values[this.top]) + " of " + nameOf(tree, this.top);
    }
    if (tree.rest[node] > 0) text += ", " + counted(tree.rest[node], "sample") + " in smaller nodes left out";
    this.details.replaceChildren(element("b", {text: nameOf(tree, node)}), " " + text + " ",
                                 element("span", {text: place.join(", ")}));
  }

  showMatches({isMatch, error}) {
    this.search.setCustomValidity(error);
    this.search.title = error;
    this.match.textContent = error ? "no regular expression" : "";
    if (!isMatch) return;
    const sum = sumMatches(this.tree, this.top, isMatch);
    this.match.textContent = this.scope.shareText(sum) + " in " + counted(sum.nodes, "node");
    this.match.title = this.scope.amountText(sum);
  }

  showCrumbs() {
    const nodes = [];
    for (let at = this.top; at >= 0; at = this.tree.parent[at]) nodes.push(at);
    this.crumbs.replaceChildren(...nodes.reverse().map((node) => {
      const crumb = button(nameOf(this.tree, node), "Zoom here", () => this.zoom(node));
      if (node === this.top) crumb.ariaCurrent = "true";
      return crumb;
    }));
    this.crumbs.scrollLeft = this.crumbs.scrollWidth;
  }

  // One for each filter; a click removes it.
  showChips() {
    const {hide, focus, callers} = this.state;
    const chip = (text, change) => button(text + " ✕", "Remove", () => this.update({zoom: "", ...change}));
    const chips = hide.map((name) => chip("without " + name, {hide: hide.filter((one) => one !== name)}));
    if (focus !== "") chips.push(chip("only samples with " + focus, {focus: ""}));
    if (callers !== "") chips.push(chip("callers of " + callers, {callers: ""}));
    this.chips.replaceChildren(...chips);
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
    return functionRows(this.tree, this.top, this.scope, this.state.sort, this.isMatch);
  }

  // In the table.
  chooseFunction(name) {
    const pattern = patternOf(name);
    this.update({q: this.state.q === pattern ? "" : pattern});
  }

  zoom(node) {
    this.update({zoom: pathOf(this.tree, node)});
  }

  openMenu(x, y, node) {
    const name = nameOf(this.tree, node);
    const entries = node === 0 ? [] : this.entriesOf(name, isLabel(this.tree, node));
    this.menu.open(x, y, name, [["Zoom here", () => this.zoom(node)], ...entries]);
  }

  entriesOf(name, isOfLabel = false) {
    const copy = ["Copy the name", () => copyText(name)];
    if (isOfLabel) return [copy];
    const {hide} = this.state;
    return [["Only samples with it", () => this.update({focus: name, zoom: ""})],
            ["Hide it", () => this.update({hide: [...hide.filter((one) => one !== name), name], zoom: ""})],
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
      else if (isField) this.picture.box.focus();
      else if (this.top !== 0) this.update({zoom: ""});
      else return;
    } else if (isSearch && event.key === "Enter") {
      this.picture.box.focus();
      this.goToMatch(1);
    } else if (isField || !this.onCommandKey(event.key)) {
      return;
    }
    event.preventDefault();
  }

  // Letters count everywhere, the others where the picture has the focus.
  onCommandKey(key) {
    const {picture, state} = this;
    const everywhere = {
      "/": () => this.search.focus(),
      i: () => this.update({icicle: !state.icicle}),
      c: () => this.update({color: state.color === "kind" ? "library" : "kind"}),
      t: () => this.update({table: !state.table}),
      n: () => this.goToMatch(1),
      N: () => this.goToMatch(-1),
      m: () => picture.openMenu(),
    };
    const ofPicture = {
      ArrowUp: () => picture.step(true),
      ArrowDown: () => picture.step(false),
      ArrowLeft: () => picture.stepAside(-1),
      ArrowRight: () => picture.stepAside(1),
      Home: () => picture.move(this.top),
      Enter: () => this.zoom(picture.current),
    };
    const hasFocus = document.activeElement === picture.box || document.activeElement === document.body;
    const command = everywhere[key] ?? (hasFocus ? ofPicture[key] : undefined);
    command?.();
    return command !== undefined;
  }

  // In the order of the tree, of the nodes that are wide enough to be seen.
  goToMatch(direction) {
    if (!this.isMatch) return;
    const {tree, top, picture} = this;
    const nodes = [];
    for (let i = Math.max(top, 1); i < tree.end[top]; ++i) {
      if (this.isMatch[tree.fn[i]] && picture.isShown(i)) nodes.push(i);
    }
    if (nodes.length === 0) return;
    if (direction < 0) nodes.reverse();
    picture.move(nodes.find((node) => (node - picture.current) * direction > 0) ?? nodes[0]);
  }
}
