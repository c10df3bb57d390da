// The picture of a tree: a canvas as large as its place, which shows the part of the rows that the
// place is scrolled to. It knows which node is where, and which one the keyboard is at.

import {contextOf, element} from "./elements.js";
import {ROW_HEIGHT, SMALL_NODES, boxAt, drawFlame, layOut, rowAt, rowTop} from "./flame.js";

export class FlamePicture {
  // `on`: {hover(node), zoom(node), menu(x, y, node)}. Node -1 is none.
  constructor(label, on) {
    this.on = on;
    this.current = 0;
    this.canvas = element("canvas");
    this.hoverMark = element("div.mark");
    this.currentMark = element("div.mark.current");
    this.tall = element("div.tall", {}, this.canvas, this.hoverMark, this.currentMark);
    this.box = element("div.picture", {
      tabindex: "0", role: "application", "aria-label": label,
      onpointermove: (event) => this.hover(this.nodeUnder(event)),
      onpointerleave: () => this.hover(-1),
      onclick: (event) => this.onClick(event),
      oncontextmenu: (event) => this.onContextMenu(event),
      onscroll: () => this.draw()}, this.tall);
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  // `look` as for drawFlame(). `scrolls`: to the root's row.
  show(tree, values, top, look, scrolls) {
    Object.assign(this, {tree, values, top, look});
    if (this.current >= tree.count) this.current = top;
    this.layOut(scrolls);
    this.hover(-1);
  }

  layOut(scrolls) {
    const width = this.box.clientWidth;
    this.rows = layOut(this.tree, this.values, this.top, width);
    this.tall.style.height = Math.max(this.rows.length * ROW_HEIGHT, this.box.clientHeight) + "px";
    // A scroll bar has come or gone.
    if (this.box.clientWidth !== width) this.rows = layOut(this.tree, this.values, this.top, this.box.clientWidth);
    if (scrolls) this.box.scrollTop = this.look.isIcicle ? 0 : this.box.scrollHeight;
    this.draw();
  }

  resize() {
    const {clientWidth, clientHeight} = this.box;
    if (!this.tree || (clientWidth === this.drawn?.width && clientHeight === this.drawn?.height)) return;
    this.layOut(!this.drawn?.height);  // it was hidden
  }

  draw() {
    const {clientWidth: width, clientHeight: height, scrollTop} = this.box;
    this.drawn = {width, height};
    drawFlame(contextOf(this.canvas, width, height), this.rows, this.tree, {width, height, top: scrollTop - this.shift}, this.look);
    this.mark(this.currentMark, this.current);
  }

  // A flame graph that is lower than its place stands at the bottom.
  get shift() {
    return this.look.isIcicle ? 0 : Math.max(this.box.clientHeight - this.rows.length * ROW_HEIGHT, 0);
  }

  topOf(node) {
    return rowTop(this.rows, this.tree.depth[node], this.look.isIcicle) + this.shift;
  }

  // {left, width} of the node's box; null: it has none.
  boxOf(node) {
    const {node: nodes = [], x, width} = this.rows[this.tree.depth[node]] ?? {};
    const place = nodes.indexOf(node);
    return place < 0 ? null : {left: x[place], width: width[place]};
  }

  mark(frame, node) {
    const box = this.boxOf(node);
    frame.hidden = !box;
    if (!box) return;
    Object.assign(frame.style, {left: box.left + "px", width: Math.max(box.width - 1, 1) + "px",
                                top: this.topOf(node) + "px", height: ROW_HEIGHT - 1 + "px"});
  }

  nodeUnder(event) {
    const {left, top} = this.box.getBoundingClientRect();
    const row = rowAt(this.rows, event.clientY - top + this.box.scrollTop - this.shift, this.look.isIcicle);
    const place = boxAt(this.rows, row, event.clientX - left);
    return place < 0 ? -1 : this.rows[row].node[place];
  }

  hover(node) {
    this.mark(this.hoverMark, node);
    this.on.hover(node);
  }

  onClick(event) {
    this.box.focus({preventScroll: true});
    const node = this.nodeUnder(event);
    if (node >= 0) this.on.zoom(node);
  }

  onContextMenu(event) {
    event.preventDefault();
    const node = this.nodeUnder(event);
    if (event.button !== 2) this.openMenu();
    else if (node >= 0) this.on.menu(event.clientX, event.clientY, node);
  }

  openMenu() {
    const {left, top} = this.box.getBoundingClientRect();
    const x = left + (this.boxOf(this.current)?.left ?? 0);
    this.on.menu(x, top + this.topOf(this.current) - this.box.scrollTop + ROW_HEIGHT, this.current);
  }

  move(node) {
    this.current = node;
    const y = this.topOf(node);
    const {scrollTop, clientHeight} = this.box;
    if (y < scrollTop) this.box.scrollTop = y;
    else if (y + ROW_HEIGHT > scrollTop + clientHeight) this.box.scrollTop = y + ROW_HEIGHT - clientHeight;
    this.mark(this.currentMark, node);
    this.hover(-1);
  }

  // Up or down on the screen: to the callee with most samples, or to the caller.
  step(upwards) {
    const {tree, current} = this;
    const isInwards = upwards !== this.look.isIcicle;
    const next = isInwards ? current + 1 : tree.parent[current];
    if (next < 0 || (isInwards && next >= tree.end[current])) return;
    if (this.boxOf(next)) this.move(next);
  }

  // To the next box of the row: -1 to the left, 1 to the right.
  stepAside(direction) {
    const {node} = this.rows[this.tree.depth[this.current]];
    let at = node.indexOf(this.current) + direction;
    while (node[at] === SMALL_NODES) at += direction;
    if (node[at] !== undefined) this.move(node[at]);
  }
}
