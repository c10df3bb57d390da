// Lays out a tree as rows of boxes, and draws those that can be seen on a canvas.

import {KINDS, LABEL, isLabel, nameOf} from "./tree.js";

export const ROW_HEIGHT = 19;
const NARROWEST = 0.5;  // pixels; narrower nodes of a row are drawn as one box
const FEWEST_LETTERS = 3;
export const SMALL_NODES = -1;  // the node of such a box

// The rows from the root on: {x, width, node} columns, from left to right. The nodes on the way to
// `top` have the whole width.
export function layOut(tree, values, top, width) {
  const rows = [];
  const add = (row, node, x, w) => {
    const boxes = rows[row] ??= {node: [], x: [], width: []};
    boxes.node.push(node);
    boxes.x.push(x);
    boxes.width.push(w);
  };
  for (let at = top; at >= 0; at = tree.parent[at]) add(tree.depth[at], at, 0, width);
  const scale = values[top] > 0 ? width / values[top] : 0;
  const next = [];   // by depth: where the next child begins
  const right = [];  // by depth: where the last child ends
  const enter = (node, x) => {
    let sum = 0;
    for (let c = node + 1; c < tree.end[node]; c = tree.end[c]) sum += values[c];
    next[tree.depth[node] + 1] = x;
    right[tree.depth[node] + 1] = x + sum * scale;
  };
  enter(top, 0);
  for (let i = top + 1; i < tree.end[top];) {
    const row = tree.depth[i];
    const x = next[row];
    const w = values[i] * scale;
    if (w < NARROWEST) {
      // The further children are not larger.
      if (right[row] - x >= NARROWEST) add(row, SMALL_NODES, x, right[row] - x);
      i = tree.end[tree.parent[i]];
      continue;
    }
    add(row, i, x, w);
    next[row] = x + w;
    enter(i, x);
    ++i;
  }
  return rows;
}

// The place of the box in the row, or -1.
export function boxAt(rows, row, x) {
  const boxes = rows[row] ?? {x: []};
  const at = boxes.x.findLastIndex((left) => left <= x);
  return at >= 0 && x < boxes.x[at] + boxes.width[at] ? at : -1;
}

// The end of a name that is too long, as in profctl's tables: names differ at their end.
export function fittingName(name, letters) {
  if (name.length <= letters) return name;
  return letters < FEWEST_LETTERS ? "" : "…" + name.slice(1 - letters);
}

function shadeOf(name) {
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  return (hash & 7) / 7;
}

// `look`: {palette, colorOf(fn, node), isMatch, isIcicle}. `view`: {width, height, top}, of the part of
// the picture that can be seen; `height` of it.
export function drawFlame(context, rows, tree, view, look) {
  const {palette} = look;
  context.font = palette.font;
  context.textBaseline = "middle";
  const letter = context.measureText("0").width;
  for (let row = 0; row < rows.length; ++row) {
    const y = rowTop(rows, row, look.isIcicle) - view.top;
    if (y + ROW_HEIGHT < 0 || y > view.height) continue;
    const {node, x, width} = rows[row];
    node.forEach((one, i) => drawBox(context, tree, one, {x: x[i], y, width: width[i], letter}, look));
  }
  context.globalAlpha = 1;
}

function drawBox(context, tree, node, box, look) {
  const {palette, isMatch} = look;
  const isFaint = isMatch && !(node > 0 && isMatch[tree.fn[node]]);
  const w = Math.max(box.width - 1, NARROWEST);
  const name = node === SMALL_NODES ? "" : nameOf(tree, node);
  context.fillStyle = node === SMALL_NODES ? palette.small
      : node === 0 || isLabel(tree, node) ? palette.label : look.colorOf(tree.fn[node], node);
  context.globalAlpha = isFaint ? 0.25 : 0.7 + 0.3 * shadeOf(name);
  context.fillRect(box.x, box.y, w, ROW_HEIGHT - 1);
  context.globalAlpha = isFaint ? 0.7 : 1;
  if (isMatch && !isFaint && w > 2) {
    // Not by colour alone.
    context.fillStyle = palette.match;
    context.fillRect(box.x, box.y + ROW_HEIGHT - 4, w, 3);
  }
  const text = fittingName(name, Math.floor((w - 6) / box.letter));
  if (text === "") return;
  context.fillStyle = isFaint ? palette.faint : palette.text;
  context.fillText(text, box.x + 3, box.y + ROW_HEIGHT / 2, w - 6);
}

export function rowTop(rows, row, isIcicle) {
  return (isIcicle ? row : rows.length - 1 - row) * ROW_HEIGHT;
}

export function rowAt(rows, y, isIcicle) {
  const row = Math.floor(y / ROW_HEIGHT);
  return isIcicle ? row : rows.length - 1 - row;
}

// The colour of each function: by the kind of its code, or by library. The libraries with most
// samples have colours of their own, the others share one.
export function chooseColors(tree, values, mode, palette) {
  const {object, kind} = tree.functions;
  if (mode !== "library") {
    const legend = KINDS.slice(0, LABEL).map((name) => ({name, color: palette[name]}));
    // Of wall-clock time, the outermost frame is the state of all below.
    const states = new Map([["[blocked]", palette.rose], ["[runnable]", palette.yellow]]);
    const ofNode = [];
    for (let i = 1; i < tree.count; ++i) {
      const above = tree.parent[i];
      ofNode[i] = above === 0 || isLabel(tree, above) ? states.get(nameOf(tree, i)) : ofNode[above];
    }
    if (ofNode.some(Boolean)) legend.push(...[...states].map(([name, color]) => ({name, color})));
    return {colorOf: (fn, node) => ofNode[node] ?? legend[kind[fn]].color, legend};
  }
  const sums = new Map();
  for (let i = 1; i < tree.count; ++i) {
    if (kind[tree.fn[i]] === LABEL) continue;
    let own = values[i];
    for (let c = i + 1; c < tree.end[i]; c = tree.end[c]) own -= values[c];
    sums.set(object[tree.fn[i]], (sums.get(object[tree.fn[i]]) ?? 0) + own);
  }
  const largest = [...sums].sort((a, b) => b[1] - a[1]).slice(0, palette.libraries.length);
  const colors = new Map(largest.map(([name], i) => [name, palette.libraries[i]]));
  const legend = largest.map(([name]) => ({name: name || "(unknown)", color: colors.get(name)}));
  legend.push({name: "others", color: palette.small});
  return {colorOf: (fn) => colors.get(object[fn]) ?? palette.small, legend};
}
