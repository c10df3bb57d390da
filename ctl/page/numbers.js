// Numbers as text, in the forms of profctl's tables, and what they are parts of.

const NS_PER_SECOND = 1e9;

export class Scope {
  constructor(json) {
    this.event = json.event;
    this.hasCpu = json.all.cpu_ns !== undefined;
    this.durationNs = json.duration_ns ?? 0;
    this.all = {samples: json.all.samples, cpu: json.all.cpu_ns ?? 0};
    this.shown = {samples: json.shown.samples, cpu: json.shown.cpu_ns ?? 0};
  }

  // Of all samples; by CPU time where that is known.
  percentOf({samples, cpu}) {
    const [part, whole] = this.hasCpu ? [cpu, this.all.cpu] : [samples, this.all.samples];
    return whole > 0 ? 100 * part / whole : 0;
  }

  shareText(value) {
    return percentText(this.percentOf(value));
  }

  // "1,234 samples, 12.5 s"
  amountText(value) {
    return counted(value.samples, "sample") + (this.hasCpu ? ", " + timeText(value.cpu) : "");
  }

  text() {
    let text = this.durationNs > 0 ? timeText(this.durationNs) + ": " : "";
    text += counted(this.all.samples, "sample");
    if (this.hasCpu) {
      text += ", " + timeText(this.all.cpu) + " of CPU time";
      if (this.durationNs > 0) {
        text += " (" + percentText(100 * this.all.cpu / this.durationNs) + " of one CPU)";
      }
    } else if (this.event !== "samples") {
      text += " of " + this.event;
    }
    if (this.shown.samples !== this.all.samples) text += ", " + this.shareText(this.shown) + " shown";
    return text;
  }
}

export function valueOf(tree, node) {
  return {samples: tree.total[node], cpu: tree.totalCpu[node]};
}

export function selfOf(tree, node) {
  return {samples: tree.self[node], cpu: tree.selfCpu[node]};
}

export function percentText(percent) {
  // Half of a digit goes to the even one, as printf() has it.
  return (percent % 1 === 0.25 ? percent - 0.01 : percent).toFixed(1) + " %";
}

export function counted(count, noun) {
  return count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");
}

export function timeText(ns) {
  const seconds = ns / NS_PER_SECOND;
  if (seconds < 10) return seconds.toFixed(2) + " s";
  if (seconds < 120) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([length]) => whole >= length);
  const [[large, name], [small, next]] = units.slice(first, first + 2);
  const rest = Math.floor(whole % large / small);
  return Math.floor(whole / large) + " " + name + (rest > 0 ? " " + rest + " " + next : "");
}
