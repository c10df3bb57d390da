// Search by regular expression, as the browser has them, in the names of functions.

// {isMatch, error}: by number of the function; null without a pattern.
export function searchFunctions(functions, pattern) {
  let error = "";
  // "u" refuses needless backslashes.
  for (const flags of pattern && ["u", ""]) {
    try {
      const expression = new RegExp(pattern, flags);
      return {isMatch: Uint8Array.from(functions.name, (name) => expression.test(name)), error: ""};
    } catch ({message}) {
      error = message;
    }
  }
  return {isMatch: null, error};
}

// The samples below `top` in whose stack a match is: each counts once.
export function sumMatches(tree, top, isMatch) {
  const sum = {samples: 0, cpu_ns: 0, nodes: 0};
  let covered = top;  // the nodes before this one lie below a match
  for (let at = tree.parent[top]; at > 0; at = tree.parent[at]) {
    if (isMatch[tree.fn[at]]) return {samples: tree.total[top], cpu_ns: tree.totalCpu[top], nodes: 1};
  }
  for (let i = Math.max(top, 1); i < tree.end[top]; ++i) {
    if (!isMatch[tree.fn[i]]) continue;
    ++sum.nodes;
    if (i < covered) continue;
    covered = tree.end[i];
    sum.samples += tree.total[i];
    sum.cpu_ns += tree.totalCpu[i];
  }
  return sum;
}

// A regular expression for exactly this name.
export function patternOf(name) {
  return "^" + name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&") + "$";
}
