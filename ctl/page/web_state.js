// What the page of profctl web shows, as the fragment of the URL, and as fields of its requests.

import {CHOICES, INITIAL} from "./state.js";

export const VIEWS = {flame: "Flame graph", table: "Table", sandwich: "Sandwich", diff: "Compare", lines: "Lines"};
export const WEB_INITIAL = {
  ...INITIAL,
  view: "flame",
  range: "",   // what is shown: "SINCE-UNTIL", milliseconds since 1970
  base: "",    // what it is compared with
  span: "",    // what the timeline shows; empty: all
  heat: false, // the timeline is a heat map
  target: [],  // "unit:nginx.service", "pid:812"
  fn: "",      // the function of a sandwich, or of lines
  names: "short",  // or "full"
  idle: false,     // threads that wait for work all the time, too
  filter: "",  // of the list
};
export const WEB_CHOICES = {...CHOICES, view: Object.keys(VIEWS), names: ["short", "full"]};

// {since, until} of such a text, or null.
export function rangeOf(text) {
  const [since, until] = text.split("-").map(Number);
  return since < until ? {since, until} : null;
}

export function textOfRange(range) {
  return range ? Math.round(range.since) + "-" + Math.round(range.until) : "";
}

// Pairs, as ctl/web/view_fields.h has them: which samples, which stacks of them, and the base.
export function sampleFields({range, target, idle}, prefix = "") {
  const fields = target.map((one) => one.split(/:(.*)/s).slice(0, 2));
  if (idle) fields.push(["idle", 1]);
  const times = rangeOf(range);
  return times ? [...fields, [prefix + "since", times.since], [prefix + "until", times.until]] : fields;
}

export function stackFields({focus, hide, names}) {
  const fields = hide.map((name) => ["hide_name", name]);
  if (focus !== "") fields.push(["focus_name", focus]);
  if (names === "full") fields.push(["names", names]);
  return fields;
}
