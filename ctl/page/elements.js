// Elements of the page. Texts are only ever texts: a name can't become HTML.

// `kind`: "nav.crumbs" is a nav of the class crumbs.
export function element(kind, properties = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const made = document.createElement(tag);
  made.className = classes.join(" ");
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
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
  box.replaceChildren(...legend.map(({name}) => element("span", {}, element("i"), name)));
  legend.forEach(({color}, i) => { box.children[i].firstChild.style.background = color; });
}

export function contextOf(canvas, width, height) {
  const ratio = devicePixelRatio;
  const [wide, high] = [width, height].map((one) => Math.round(one * ratio));
  if (canvas.width !== wide || canvas.height !== high) {
    Object.assign(canvas, {width: wide, height: high});
    Object.assign(canvas.style, {width: width + "px", height: height + "px"});
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// The key means something here, and nothing to the rest of the page.
export function takeKey(event) {
  event.preventDefault();
  event.stopPropagation();
}

// Up and Down move the focus among the buttons of the box.
export function moveFocus(event, box) {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!step) return;
  const items = [...box.querySelectorAll("button")];
  items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
  takeKey(event);
}

// A menu at a place of the window. `entries`: [text, action]; the keyboard moves in it.
export class Menu {
  constructor() {
    this.box = element("div.menu", {role: "menu", hidden: "", onkeydown: (event) => this.onKey(event)});
    document.addEventListener("pointerdown", (event) => {
      if (!this.box.contains(event.target)) this.close();
    });
    document.body.append(this.box);
  }

  open(x, y, title, entries) {
    this.before = document.activeElement;
    const {box} = this;
    const items = entries.map(([text, action]) => element("button", {
      type: "button", role: "menuitem", text, onclick: () => {
        this.close();
        action();
      }}));
    box.replaceChildren(element("div.title", {text: title}), ...items);
    box.hidden = false;
    const place = (at, most) => Math.max(0, Math.min(at, most)) + "px";
    Object.assign(box.style, {left: place(x, innerWidth - box.offsetWidth), top: place(y, innerHeight - box.offsetHeight)});
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
    moveFocus(event, this.box);
    if (event.key !== "Escape" && event.key !== "Tab") return;
    this.close();
    takeKey(event);
  }
}
