// The functions of what is shown, by self or total.

import {element} from "./elements.js";
import {LABEL, sumFunctions} from "./tree.js";
import {patternOf} from "./search.js";
import {percentText} from "./numbers.js";

const MAX_ROWS = 300;

// The rows in their order: {fn, self, total, selfPercent, totalPercent, ...}.
export function functionRows(tree, top, scope, sort) {
  const rows = sumFunctions(tree, top).filter(({fn}) => tree.functions.kind[fn] !== LABEL);
  for (const row of rows) {
    row.name = tree.functions.name[row.fn];
    row.selfPercent = scope.percentOf({samples: row.self, cpu: row.selfCpu});
    row.totalPercent = scope.percentOf({samples: row.total, cpu: row.totalCpu});
  }
  const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const orders = {
    self: (a, b) => b.selfPercent - a.selfPercent || b.totalPercent - a.totalPercent || byName(a, b),
    total: (a, b) => b.totalPercent - a.totalPercent || b.selfPercent - a.selfPercent || byName(a, b),
    name: byName,
  };
  return rows.sort(orders[sort]);
}

export class FunctionTable {
  // `update` changes the state; `openMenu(x, y, fn)` shows what can be done with a function.
  constructor(update, openMenu) {
    this.update = update;
    this.openMenu = openMenu;
    this.box = element("section", {class: "functions", "aria-label": "Functions"});
  }

  show(tree, top, scope, {sort, q}, isMatch) {
    const rows = functionRows(tree, top, scope, sort).filter(({fn}) => !isMatch || isMatch[fn]);
    const heads = [["self", "Self"], ["total", "Total"], ["name", "Function"]];
    const head = element("tr", {}, ...heads.map(([key, text]) => element(
      "th", {"aria-sort": key === sort ? (key === "name" ? "ascending" : "descending") : "none"},
      element("button", {type: "button", text, onclick: () => this.update({sort: key})}))));
    const body = rows.slice(0, MAX_ROWS).map((row) => this.line(row, scope, q));
    if (rows.length > MAX_ROWS) {
      const more = "... " + (rows.length - MAX_ROWS) + " more";
      body.push(element("tr", {}, element("td"), element("td"), element("td", {text: more})));
    }
    this.box.replaceChildren(element("table", {}, element("thead", {}, head),
                                     element("tbody", {}, ...body)));
  }

  line(row, scope, q) {
    const pattern = patternOf(row.name);
    const name = element("button", {
      type: "button", text: row.name, title: "Search it",
      onclick: () => this.update({q: q === pattern ? "" : pattern})});
    const title = (samples, cpu) => ({title: scope.amountText({samples, cpu})});
    return element(
      "tr", {oncontextmenu: (event) => {
        event.preventDefault();
        this.openMenu(event.clientX, event.clientY, row.fn);
      }},
      element("td", {text: percentText(row.selfPercent), ...title(row.self, row.selfCpu)}),
      element("td", {text: percentText(row.totalPercent), ...title(row.total, row.totalCpu)}),
      element("td", {}, name));
  }
}
