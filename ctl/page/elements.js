// Elements of the page. Texts are only ever texts: a name can't become HTML.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function button(text, title, action) {
  return element("button", {type: "button", text, title, onclick: action});
}

// `rows`: lists of texts or elements, one for each of the titles.
export function showTable(box, titles, rows) {
  const row = (tag, fields) => element("tr", {}, ...fields.map((field) => element(tag, {}, field)));
  box.replaceChildren(element("table", {}, element("thead", {}, row("th", titles)),
                              element("tbody", {}, ...rows.map((fields) => row("td", fields)))));
}

export function showLegend(box, legend) {
  box.replaceChildren(...legend.map(({name, color}) => {
    const sample = element("i");
    sample.style.background = color;
    return element("span", {}, sample, name);
  }));
}

// To draw on the canvas, which gets this size.
export function contextOf(canvas, width, height) {
  const ratio = devicePixelRatio;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    Object.assign(canvas, {width: wide, height: high});
    Object.assign(canvas.style, {width: width + "px", height: height + "px"});
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Where the browser has no clipboard for pages of files, a selection is copied.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", {class: "copied", text});
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// Up and Down move the focus. Undefined: it was another key.
export function moveFocus(event, items) {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (step) items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
  return step;
}

// A menu at a place of the window. `entries`: [text, action]; the keyboard moves in it.
export class Menu {
  constructor() {
    this.box = element("div", {class: "menu", role: "menu", hidden: ""});
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("pointerdown", (event) => {
      if (!this.box.contains(event.target)) this.close();
    });
    document.body.append(this.box);
  }

  open(x, y, title, entries) {
    this.before = document.activeElement;
    const items = entries.map(([text, action]) => element("button", {
      type: "button", role: "menuitem", text, onclick: () => {
        this.close();
        action();
      }}));
    this.box.replaceChildren(element("div", {class: "title", text: title}), ...items);
    this.box.hidden = false;
    const {width, height} = this.box.getBoundingClientRect();
    this.box.style.left = Math.max(0, Math.min(x, innerWidth - width)) + "px";
    this.box.style.top = Math.max(0, Math.min(y, innerHeight - height)) + "px";
    items[0].focus();
  }

  get isOpen() {
    return !this.box.hidden;
  }

  close() {
    if (!this.isOpen) return;
    this.box.hidden = true;
    this.before?.focus({preventScroll: true});
  }

  onKey(event) {
    if (event.key === "Escape" || event.key === "Tab") this.close();
    else if (!moveFocus(event, [...this.box.querySelectorAll("button")])) return;
    event.preventDefault();
    event.stopPropagation();
  }
}
