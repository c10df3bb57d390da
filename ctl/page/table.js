// The functions of what is shown, by self or total.

import {button, element, showTable} from "./elements.js";
import {LABEL, sumFunctions} from "./tree.js";
import {percentText} from "./numbers.js";

const MAX_ROWS = 300;

// The rows in their order, in the form of 'profctl report --json'.
export function functionRows(tree, top, scope, sort, isMatch) {
  const {kind, name} = tree.functions;
  const rows = sumFunctions(tree, top).filter(({fn}) => kind[fn] !== LABEL && (!isMatch || isMatch[fn])).map((row) => ({
    name: name[row.fn],
    self: {samples: row.self, cpu_ns: row.selfCpu}, self_percent: scope.percentOf({samples: row.self, cpu: row.selfCpu}),
    total: {samples: row.total, cpu_ns: row.totalCpu}, total_percent: scope.percentOf({samples: row.total, cpu: row.totalCpu})}));
  return sortRows(rows, sort);
}

export function sortRows(rows, sort) {
  const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const orders = {
    self: (a, b) => b.self_percent - a.self_percent || b.total_percent - a.total_percent || byName(a, b),
    total: (a, b) => b.total_percent - a.total_percent || b.self_percent - a.self_percent || byName(a, b),
    name: byName,
  };
  return rows.sort(orders[sort]);
}

export class FunctionTable {
  // `on`: {choose(name), sort(key), menu(x, y, name)}.
  constructor(on) {
    this.on = on;
    this.box = element("section", {class: "functions", "aria-label": "Functions", oncontextmenu: (event) => {
      const name = event.target.closest("tr")?.querySelector("td button")?.textContent;
      if (name === undefined) return;
      event.preventDefault();
      on.menu(event.clientX, event.clientY, name);
    }});
  }

  // `rows` as functionRows() makes them, in the order `sort`.
  show(rows, scope, sort) {
    const titles = [["self", "Self"], ["total", "Total"], ["name", "Function"]].map(
      ([key, text]) => button(text, "Sort by it", () => this.on.sort(key)));
    const amount = (percent, {samples, cpu_ns: cpu}) => element("span", {text: percentText(percent), title: scope.amountText({samples, cpu})});
    const lines = rows.slice(0, MAX_ROWS).map((row) => [
      amount(row.self_percent, row.self), amount(row.total_percent, row.total),
      element("button", {type: "button", text: row.name, onclick: () => this.on.choose(row.name)})]);
    if (rows.length > MAX_ROWS) lines.push(["", "", "... " + (rows.length - MAX_ROWS) + " more"]);
    showTable(this.box, titles, lines);
    const sorted = titles[["self", "total", "name"].indexOf(sort)].parentElement;
    sorted.setAttribute("aria-sort", sort === "name" ? "ascending" : "descending");
  }
}
