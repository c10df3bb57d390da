// Trees of calls: one that profctl made, and others that follow from it.
//
// A tree has a column for each property of its nodes. Node 0 is the root, "all"; each node stands
// before its children, the largest first. `end` is the node after its subtree. `self` counts samples
// that end in the node, `rest` those of smaller nodes below it that profctl left out, `total` both
// with all children; columns that end in Cpu have nanoseconds.
// ctl/views/flame_json.h has the form in which a tree arrives.

export const KINDS = ["native", "kernel", "runtime", "interpreted", "label"];
export const LABEL = 4;
const NO_FUNCTION = -1;
const ENCODER = new TextEncoder();
const OWN = ["self", "rest", "selfCpu", "restCpu"];

// Of {parent, fn, self, rest, selfCpu, restCpu}, each of which stands after its parent.
function treeOf(functions, nodes) {
  const count = nodes.length;
  const tree = {functions, count};
  for (const name of ["parent", "depth", "fn", "end"]) tree[name] = new Int32Array(count);
  for (const name of [...OWN, "total", "totalCpu"]) tree[name] = new Float64Array(count);
  nodes.forEach((node, i) => {
    for (const name of ["parent", "fn", ...OWN]) tree[name][i] = node[name];
  });
  for (let i = count - 1; i >= 0; --i) {
    const parent = tree.parent[i];
    tree.end[i] ||= i + 1;
    tree.total[i] += tree.self[i] + tree.rest[i];
    tree.totalCpu[i] += tree.selfCpu[i] + tree.restCpu[i];
    if (parent < 0) continue;
    tree.end[parent] ||= tree.end[i];  // of its last child
    tree.total[parent] += tree.total[i];
    tree.totalCpu[parent] += tree.totalCpu[i];
  }
  for (let i = 1; i < count; ++i) tree.depth[i] = tree.depth[tree.parent[i]] + 1;
  return tree;
}

function emptyNode(parent, fn) {
  return {parent, fn, self: 0, rest: 0, selfCpu: 0, restCpu: 0};
}

// The JSON of profctl, parsed. The samples without any frame are those of the root itself.
export function decodeTree(json) {
  const functions = {...json.functions, object: json.functions.object.map((number) => json.objects[number])};
  const {depth, fn, self, rest, self_cpu: selfCpu, rest_cpu: restCpu} = json.nodes;
  const cpu = (counts, known, i) => (json.period_ns ? counts[i] * json.period_ns : known?.[i] ?? 0);
  const path = [0];
  const tree = treeOf(functions, [emptyNode(-1, NO_FUNCTION), ...depth.map((above, i) => {
    path[above + 1] = i + 1;
    return {parent: path[above], fn: fn[i], self: self[i], rest: rest[i],
            selfCpu: cpu(self, selfCpu, i), restCpu: cpu(rest, restCpu, i)};
  })]);
  const {samples, cpu_ns = 0} = json.shown;
  tree.self[0] = samples - tree.total[0];
  tree.selfCpu[0] = cpu_ns - tree.totalCpu[0];
  tree.total[0] = samples;
  tree.totalCpu[0] = cpu_ns;
  // Sums before nodes were left out.
  return Object.assign(tree, {leftOut: json.left_out, sums: json.sums?.map(([own, all, ownCpu, allCpu], i) => (
    {fn: i, self: {samples: own, cpu_ns: ownCpu}, total: {samples: all, cpu_ns: allCpu}}))});
}

// What a share is taken of, and what widths are in proportion to.
export function valueColumn(tree, hasCpu) {
  return hasCpu ? tree.totalCpu : tree.total;
}

export function nameOf(tree, node) {
  return node === 0 ? "all" : tree.functions.name[tree.fn[node]];
}

export function isLabel(tree, node) {
  return node !== 0 && tree.functions.kind[tree.fn[node]] === LABEL;
}

// Grows a tree whose nodes come in any order.
class TreeBuilder {
  constructor(functions) {
    this.functions = functions;
    this.nodes = [];
    this.index = new Map();
    this.child(-1, NO_FUNCTION);
  }

  child(parent, fn) {
    const key = parent * this.functions.name.length + fn;
    let node = this.index.get(key);
    if (node === undefined) {
      node = this.nodes.length;
      this.nodes.push(emptyNode(parent, fn));
      this.index.set(key, node);
    }
    return node;
  }

  addOwn(node, tree, from) {
    for (const value of OWN) this.nodes[node][value] += tree[value][from];
  }

  finish() {
    const {functions, nodes} = this;
    const {total, totalCpu} = treeOf(functions, nodes);
    const children = nodes.map(() => []);
    for (let i = nodes.length - 1; i > 0; --i) if (total[i] > 0 || totalCpu[i] > 0) children[nodes[i].parent].push(i);
    const nameAt = (node) => functions.name[nodes[node].fn];
    const byShare = (a, b) => totalCpu[b] - totalCpu[a] || total[b] - total[a] || (nameAt(a) < nameAt(b) ? -1 : 1);
    const order = [];
    const left = [[0, -1]];
    while (left.length !== 0) {
      const [from, parent] = left.pop();
      const place = order.push({...nodes[from], parent}) - 1;
      for (const child of children[from].sort(byShare).reverse()) left.push([child, place]);
    }
    return treeOf(functions, order);
  }
}

// Without the frames of hidden functions, and only the samples in whose stack a wanted one is left;
// `isWanted` is null where all are. Both are by number of the function.
export function filterFunctions(tree, isHidden, isWanted) {
  const builder = new TreeBuilder(tree.functions);
  const places = new Int32Array(tree.count);
  const isInside = new Uint8Array(tree.count);
  isInside[0] = !isWanted;
  for (let i = 1; i < tree.count; ++i) {
    const [above, fn] = [tree.parent[i], tree.fn[i]];
    places[i] = isHidden[fn] ? places[above] : builder.child(places[above], fn);
    isInside[i] = isInside[above] || (isWanted[fn] && !isHidden[fn]);
    // A sample that loses all of its frames is not shown.
    if (isInside[i] && places[i] !== 0) builder.addOwn(places[i], tree, i);
  }
  if (!isWanted) builder.addOwn(0, tree, 0);
  return builder.finish();
}

// What calls the functions: from one of them outwards. Of a recursion the outermost call counts.
export function callersOf(tree, isWanted) {
  const builder = new TreeBuilder(tree.functions);
  for (let i = 1; i < tree.count; ++i) {
    if (!isWanted[tree.fn[i]]) continue;
    let place = 0;
    for (let at = i; at > 0; at = tree.parent[at]) place = builder.child(place, tree.fn[at]);
    builder.nodes[place].self += tree.total[i];
    builder.nodes[place].selfCpu += tree.totalCpu[i];
    i = tree.end[i] - 1;
  }
  return builder.finish();
}

// The sums of each function in the subtree of `top`; a recursive one counts once. In no order.
export function sumFunctions(tree, top) {
  const {fn, end, sums} = tree;
  if (sums && top === 0) return sums;
  const rows = [];
  const open = new Int32Array(tree.functions.name.length);
  const path = [];
  for (let i = top; i < end[top]; ++i) {
    while (path.length !== 0 && end[path.at(-1)] <= i) --open[fn[path.pop()]];
    if (i === 0) continue;
    const row = rows[fn[i]] ??= {fn: fn[i], self: {samples: 0, cpu_ns: 0}, total: {samples: 0, cpu_ns: 0}};
    for (const kind of open[fn[i]]++ ? ["self"] : ["self", "total"]) {
      row[kind].samples += tree[kind][i];
      row[kind].cpu_ns += tree[kind + "Cpu"][i];
    }
    path.push(i);
  }
  return rows.flat();
}

// A short name of a place in the tree, which stays the same when the numbers change.
export function pathOf(tree, node) {
  const steps = [];
  for (let at = node; at > 0; at = tree.parent[at]) steps.push(stepOf(nameOf(tree, at)));
  return steps.reverse().join(".");
}

// 32 bits of FNV-1a, of UTF-8: as in ctl/web/zoomed_tree.cc.
function stepOf(name) {
  let hash = 0x811c9dc5;
  for (const byte of ENCODER.encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(36);
}

// The node at the end of the path, or the last one of it that is there.
export function nodeAt(tree, path) {
  let node = 0;
  for (const step of path === "" ? [] : path.split(".")) {
    let child = node + 1;
    while (child < tree.end[node] && stepOf(nameOf(tree, child)) !== step) child = tree.end[child];
    if (child >= tree.end[node]) return node;
    node = child;
  }
  return node;
}
