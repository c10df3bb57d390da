// Who used the CPU: units with their processes, and containers, of which some can be chosen.

import {element, moveFocus} from "./elements.js";

const MAX_ROWS = 300;

export class WebList {
  // `choose(target, isMore)`: of a row; `isMore`: beside the others. `keep(filter)`: of what was typed.
  constructor(choose, keep) {
    Object.assign(this, {choose, rows: [], left_out: 0, targets: []});
    this.filter = element("input", {
      type: "search", placeholder: "Filter (f)", "aria-label": "Filter the list", oninput: () => keep(this.filter.value)});
    this.list = element("div.rows", {onkeydown: (event) => moveFocus(event, this.list)});
    this.box = element("aside", {"aria-label": "Units, processes and containers"}, this.filter, this.list);
  }

  // `list` as of ctl/web/process_list.h; `textOf(value)`; `groups` of the timeline.
  show(list, textOf, groups) {
    Object.assign(this, list, {textOf, bars: new Map(groups.map(({name, bars}) => [name, bars]))});
    this.draw();
  }

  mark(targets, filter) {
    this.targets = targets;
    if (this.filter.value !== filter) this.filter.value = filter;
    this.draw();
  }

  draw() {
    const wanted = this.filter.value.toLowerCase();
    const rows = this.rows.filter(({text}) => text.toLowerCase().includes(wanted));
    const at = [...this.list.children].indexOf(document.activeElement);
    const more = rows.splice(MAX_ROWS).length + this.left_out;
    this.list.replaceChildren(...rows.map((row) => this.line(row)), more ? element("p", {text: more + " more"}) : "");
    this.list.children[at]?.focus();
  }

  line(row) {
    const {text, target, kind, group} = row;
    return element("button.row." + kind, {
      type: "button", title: text, "aria-pressed": this.targets.includes(target),
      onclick: (event) => target && this.choose(target, event.ctrlKey || event.metaKey)},
      element("span.name", {text}), element("span.spark", {text: this.bars.get(group) ?? ""}),
      element("span.percent", {text: this.textOf(row)}));
  }
}
