// The functions of what is shown, by self or total.

import {button, element, showTable} from "./elements.js";
import {LABEL, sumFunctions} from "./tree.js";
import {percentText} from "./numbers.js";

const MAX_ROWS = 300;

// The rows in their order, in the form of 'profctl report --json'. `isLeast`: nodes were left out.
export function functionRows(tree, top, scope, sort, isMatch, isLeast) {
  const {kind, name} = tree.functions;
  const rows = sumFunctions(tree, top).filter(({fn}) => kind[fn] !== LABEL && (!isMatch || isMatch[fn]));
  return sortRows(rows.map(({fn, self, total}) => (
    {name: name[fn], self, self_percent: scope.percentOf(self), total, total_percent: scope.percentOf(total),
     isLeast: isLeast && (top !== 0 || !tree.sums)})), sort);
}

export function sortRows(rows, sort) {
  const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const by = (first, second) => (a, b) => b[first] - a[first] || b[second] - a[second] || byName(a, b);
  const orders = {self: by("self_percent", "total_percent"), total: by("total_percent", "self_percent"), name: byName};
  return rows.sort(orders[sort]);
}

export class FunctionTable {
  // `on`: {choose(name), sort(key), menu(x, y, name)}.
  constructor(on) {
    this.on = on;
    this.box = element("section.functions", {"aria-label": "Functions", oncontextmenu: (event) => {
      const name = event.target.closest("tr")?.querySelector("td button")?.textContent;
      if (name === undefined) return;
      event.preventDefault();
      on.menu(event.clientX, event.clientY, name);
    }});
  }

  // `rows` as functionRows() makes them, in the order `sort`.
  show(rows, scope, sort) {
    const titles = {self: "Self", total: "Total", name: "Function"};
    for (const [key, text] of Object.entries(titles)) titles[key] = button(text, "Sort by it", () => this.on.sort(key));
    const amount = (row, key) => element("span", {text: percentText(row[key + "_percent"], row.isLeast), title: scope.amountText(row[key])});
    const lines = rows.slice(0, MAX_ROWS).map((row) => [
      amount(row, "self"), amount(row, "total"), button(row.name, "", () => this.on.choose(row.name))]);
    if (rows.length > MAX_ROWS) lines.push(["", "", "... " + (rows.length - MAX_ROWS) + " more"]);
    showTable(this.box, Object.values(titles), lines);
    titles[sort].parentElement.ariaSort = sort === "name" ? "ascending" : "descending";
  }
}
