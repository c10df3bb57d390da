// Numbers as text, in the forms of profctl's tables, and what they are parts of.

export class Scope {
  // `noun`: of a sample; "" where their number is not known.
  constructor({all, duration_ns: durationNs = 0, scope: text = "", noun = "sample"}) {
    Object.assign(this, {all, durationNs, text, noun, hasCpu: all.cpu_ns !== undefined});
  }

  // Of all samples; by their time where that is known.
  percentOf(value) {
    const unit = this.hasCpu ? "cpu_ns" : "samples";
    return 100 * value[unit] / (this.all[unit] || 1);
  }

  shareText(value, isLeast) {
    return percentText(this.percentOf(value), isLeast);
  }

  // "12.5 % (1,234 samples, 12.5 s)", and what is in the brackets
  valueText(value) {
    return this.shareText(value) + " (" + this.amountText(value) + ")";
  }

  amountText(value) {
    return [this.noun && counted(value.samples, this.noun), this.hasCpu && timeText(value.cpu_ns)].filter(Boolean).join(", ");
  }
}

export function percentText(percent, isLeast) {
  // Half of a digit goes to the even one, as printf() has it.
  return (isLeast ? "≥ " : "") + (percent % 1 === 0.25 ? percent - 0.01 : percent).toFixed(1) + " %";
}

export function counted(count, noun) {
  return count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");
}

export function timeText(ns) {
  const seconds = ns / 1e9;
  if (seconds < 10) return seconds.toFixed(2) + " s";
  if (seconds < 120) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([length]) => whole >= length);
  const [[large, name], [small, next]] = units.slice(first, first + 2);
  const rest = Math.floor(whole % large / small);
  return Math.floor(whole / large) + " " + name + (rest > 0 ? " " + rest + " " + next : "");
}
