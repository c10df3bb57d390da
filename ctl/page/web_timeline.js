// CPU use over time, stacked by group, in which a range is chosen, and another to compare with.

import {button, contextOf, element, showLegend, takeKey} from "./elements.js";
import {counted} from "./numbers.js";

const LARGEST = 7;  // as many as there are colours
const LEAST_MOVE = 4;  // pixels; less is a click
const LEAST_SPAN = 10_000;  // ms
const AXIS = 16;  // pixels
const PART = 20;  // ms: a part of a second
const TICK = 90;
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800];
const HELP = "CPU use over time. Drag chooses a range, with Shift one to compare with. " +
    "Left and Right move it, with Shift its end; + - 0 zoom; End is the newest window; g: parts of seconds, also by Up and Down";

// The heights of a window's parts, from the lowest on: of each of the largest groups, which come
// first in the list of groups, and of all others.
export function partsOf({top, cpu_percent: all}, largest = LARGEST) {
  const parts = Array(largest).fill(0);
  for (const [group, percent] of top) if (group < largest) parts[group] = percent;
  return [...parts, Math.max(all - parts.reduce((sum, one) => sum + one, 0), 0)];
}

// From the start of the first window that the span touches to the end of the last one; null: none.
export function snapped(windows, span) {
  const chosen = touched(windows, span);
  return chosen.length === 0 ? null : {since: chosen[0].since, until: chosen.at(-1).until};
}

function touched(windows, {since, until}) {
  return windows.filter((window) => window.since < until && window.until > since);
}

// The range with its start and its end moved by as many windows; null: there is none.
export function moved(windows, {since, until}, byStart, byEnd) {
  const start = windows[windows.findIndex((one) => one.until > since) + byStart];
  const end = windows[windows.findLastIndex((one) => one.since < until) + byEnd];
  return start && end && start.since < end.until ? {since: start.since, until: end.until} : null;
}

function timeTextOf(ms) {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  const [date, clock] = local.toISOString().replace(/(\.000)?Z/, "").split("T");
  return {date, clock};
}

// "2026-11-20 14:05:00 to 14:06:00.020"
export function rangeText({since, until}) {
  const [a, b] = [timeTextOf(since), timeTextOf(until)];
  return a.date + " " + a.clock + " to " + (a.date === b.date ? "" : b.date + " ") + b.clock;
}

export class WebTimeline {
  // `on`: {choose(range), compare(range), zoom(span or null), hover(text), heat()}.
  constructor(on) {
    Object.assign(this, {on, windows: []});
    this.canvas = element("canvas");
    this.marks = ["", "base", "drag"].map((kind) => element("div.range." + kind, {hidden: ""}));
    this.box = element("div.timeline", {
      tabindex: "0", role: "application", "aria-label": HELP,
      onpointerdown: (event) => this.press(event), onpointermove: (event) => this.move(event),
      onpointerup: (event) => this.release(event), onpointerleave: () => on.hover(""),
      onwheel: (event) => this.turn(event), onkeydown: (event) => this.onKey(event)}, this.canvas, ...this.marks);
    this.legend = element("div.legend");
    this.tools = [button("+", "Zoom in (+)", () => this.zoomBy(0.5)), button("−", "Zoom out (-)", () => this.zoomBy(2)),
                  button("All", "The whole history (0)", () => on.zoom(null)),
                  this.toggle = button("Heat map", "Parts of each second (g)", on.heat)];
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(data, palette) {
    Object.assign(this, data, {palette, colors: [...palette.libraries, palette.small]});
    const largest = this.groups.slice(0, LARGEST).map(({name}, i) => ({name, color: this.colors[i]}));
    showLegend(this.legend, [...largest, {name: "others", color: palette.small}]);
    this.parts = this.windows.flatMap(({since, parts = []}) => parts.map(
      (samples, i) => ({since: since + i * PART, until: since + (i + 1) * PART, samples})));
    this.toggle.hidden = this.parts.length === 0;
    this.draw();
  }

  // Each is null where there is none.
  mark(range, base, zoomed, isWanted) {
    Object.assign(this, {range, base, zoomed, isWanted});
    this.toggle.ariaPressed = isWanted;
    this.draw();
  }

  get whole() {
    return {since: this.windows[0].since, until: this.windows.at(-1).until};
  }

  get span() {
    return this.zoomed ?? this.whole;
  }

  xOf(ms) {
    const {since, until} = this.span;
    return (ms - since) / (until - since) * this.box.clientWidth;
  }

  timeAt(x) {
    const {since, until} = this.span;
    return since + x / this.box.clientWidth * (until - since);
  }

  get isHeat() {
    return this.isWanted && !this.toggle.hidden;
  }

  get units() {
    return this.isHeat ? this.parts : this.windows;
  }

  draw() {
    this.box.classList.toggle("heat", this.isHeat);
    const {clientWidth: width, clientHeight: height} = this.box;
    if (this.windows.length === 0 || width === 0) return;
    const context = contextOf(this.canvas, width, height);
    const shown = touched(this.windows, this.span);
    const {isHeat} = this;
    const most = Math.max(...shown.map((window) => (isHeat ? Math.max(...window.parts) : window.cpu_percent)), 1);
    const scale = (height - AXIS - 14) / most;
    for (const window of shown) {
      const x = this.xOf(window.since);
      const wide = this.xOf(window.until) - x;
      let y = height - AXIS;
      (isHeat ? window.parts : partsOf(window)).forEach((part, i) => {
        const tall = isHeat ? (height - AXIS) / window.parts.length : part * scale;
        context.fillStyle = isHeat ? this.shade(context, window.since + i * PART, part / most) : this.colors[i];
        y -= tall;
        context.fillRect(x, y, Math.max(wide - (wide > 4), 1), tall);
      });
    }
    context.globalAlpha = 1;
    this.drawAxis(context, width, height - AXIS);
    if (!isHeat) context.fillText(most.toFixed(0) + " % of one CPU", 3, 1);
    [this.range, this.base, this.drawn].forEach((range, i) => this.place(i, isHeat ? null : range));
  }

  // Of a part: the more samples, the darker. A second begins at the bottom, as in FlameScope.
  shade(context, since, share) {
    const range = this.drawn ?? this.range;
    const isChosen = range && range.since < since + PART && since < range.until;
    context.globalAlpha = share > 0 ? 0.2 + 0.8 * share : isChosen ? 0.1 : 0;
    return isChosen ? this.palette.more : this.palette.native;
  }

  drawAxis(context, width, y) {
    const {since, until} = this.span;
    const step = 1000 * (STEPS.find((one) => one * 1000 * width >= (until - since) * TICK) ?? STEPS.at(-1));
    const shift = new Date(since).getTimezoneOffset() * 60_000;
    Object.assign(context, {font: this.palette.font, textBaseline: "top", fillStyle: this.palette.faint});
    context.fillRect(0, y, width, 1);
    for (let at = Math.ceil((since - shift) / step) * step + shift; at < until; at += step) {
      const {date, clock} = timeTextOf(at);
      context.fillRect(this.xOf(at), y, 1, 4);
      context.fillText(clock === "00:00:00" ? date : clock.slice(0, step < 60_000 ? 8 : 5), this.xOf(at) + 3, y + 3);
    }
  }

  place(kind, range) {
    const left = range ? Math.max(this.xOf(range.since), 0) : 0;
    const right = range ? Math.min(this.xOf(range.until), this.box.clientWidth) : -1;
    this.marks[kind].hidden = right < left;
    Object.assign(this.marks[kind].style, {left: left + "px", width: Math.max(right - left, 2) + "px"});
  }

  timeOf(event) {
    const {left, top, height} = this.box.getBoundingClientRect();
    const at = this.timeAt(event.clientX - left);
    const second = this.isHeat && this.windows.find(({until}) => at < until);
    if (!second) return at;
    const part = 1 - (event.clientY - top) / (height - AXIS);
    return second.since + 1000 * Math.min(Math.max(part, 0), 0.999);
  }

  press(event) {
    if (event.button !== 0 || this.windows.length === 0) return;
    this.box.setPointerCapture(event.pointerId);
    this.start = this.timeOf(event);
  }

  move(event) {
    if (this.windows.length === 0) return;
    if (this.start !== undefined) return this.showDragged(this.dragged(event));
    const at = this.timeOf(event);
    const unit = this.units.find(({since, until}) => since <= at && at < until);
    this.on.hover(unit ? this.textOf(unit) : "");
  }

  dragged(event) {
    const [a, b] = [this.start, this.timeOf(event)].sort((one, other) => one - other);
    const least = this.isHeat ? 0 : this.timeAt(LEAST_MOVE) - this.timeAt(0);
    return {since: a, until: b - a <= least ? a + 1 : b};
  }

  showDragged(range) {
    this.drawn = range;
    this.draw();
  }

  textOf(window) {
    const time = rangeText(window) + ": ";
    if (this.isHeat) return time + counted(window.samples, "sample");
    const top = window.top.map(([group, percent]) => this.groups[group].name + " " + percent.toFixed(1) + " %");
    return time + window.cpu_percent.toFixed(1) + " % of one CPU: " + top.join(", ");
  }

  release(event) {
    if (this.start === undefined) return;
    const range = snapped(this.units, this.dragged(event));
    this.start = undefined;
    this.showDragged(null);
    if (range) this.on[event.shiftKey ? "compare" : "choose"](range);
  }

  turn(event) {
    event.preventDefault();
    this.zoomBy(event.deltaY > 0 ? 1.5 : 0.67, this.timeOf(event));
  }

  zoomBy(factor, center = this.timeAt(this.box.clientWidth / 2)) {
    const {span, whole} = this;
    const since = Math.max(center - (center - span.since) * factor, whole.since);
    const until = Math.min(center + (span.until - center) * factor, whole.until);
    if (until - since < LEAST_SPAN) return;
    this.on.zoom(since === whole.since && until === whole.until ? null : {since, until});
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.windows.length === 0) return;
    const [second, part] = this.isHeat ? [1000 / PART, 1] : [1, 0];
    const step = {ArrowLeft: -second, ArrowRight: second, ArrowDown: -part, ArrowUp: part}[event.key];
    const keys = {"+": () => this.zoomBy(0.5), "-": () => this.zoomBy(2), 0: () => this.on.zoom(null),
                  End: () => this.on.choose(this.windows.at(-1))};
    if (!step && !keys[event.key]) return;
    const next = step && moved(this.units, this.range ?? this.units[0], event.shiftKey ? 0 : step, step);
    if (next) this.on.choose(next);
    keys[event.key]?.();
    takeKey(event);
  }
}
