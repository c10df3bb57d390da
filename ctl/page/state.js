// What is shown, as the fragment of the URL: a link leads to the same picture.

export const INITIAL = {
  zoom: "",       // pathOf() the node that has the whole width
  q: "",          // the regular expression that is searched for
  icicle: false,  // the root is at the top
  color: "kind",  // or "library"
  sort: "self",   // or "total", "name"
  table: true,
  focus: "",      // only samples with this function
  hide: [],       // these functions are left out of stacks
  callers: "",    // what calls this function, instead of the whole tree
};
export const CHOICES = {color: ["kind", "library"], sort: ["self", "total", "name"]};

// `initials` and `choices` are those of a page with more in its state.
export function fragmentOf(state, initials = INITIAL) {
  const fields = new URLSearchParams();
  for (const [key, initial] of Object.entries(initials)) {
    const value = state[key];
    if (Array.isArray(initial)) {
      for (const one of value) fields.append(key, one);
    } else if (value !== initial) {
      fields.set(key, typeof initial === "boolean" ? Number(value) : value);
    }
  }
  return fields.toString();
}

// Unknown fields and values are ignored.
export function stateOf(fragment, initials = INITIAL, choices = CHOICES) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = {...initials};
  for (const [key, initial] of Object.entries(initials)) {
    const value = fields.get(key);
    if (Array.isArray(initial)) state[key] = fields.getAll(key);
    else if (value !== null && (choices[key]?.includes(value) ?? true)) state[key] = typeof initial === "boolean" ? value === "1" : value;
  }
  return state;
}
