// Elements and texts. Text only ever becomes a text node or an attribute's value: nothing of the data is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SAFE_ADDRESS = /^(#|\.\/)/;

function h(tag, properties, ...children) {
  return build(document.createElement(tag), properties, children);
}

function svg(tag, properties, ...children) {
  return build(document.createElementNS(SVG, tag), properties, children);
}

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css")
      for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "href" && !SAFE_ADDRESS.test(value)) continue;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

// Shapes tell verdicts apart where colours do not.
const SHAPES = {
  passed: "M3 8.5 6.5 12 13 4.5",
  failed: "M4 4 12 12M12 4 4 12",
  error: "M8 3v6.2M8 12.4v.1",
  skipped: "M4 8h8",
};

function icon(verdict) {
  const shape = svg("path", { d: SHAPES[verdict] ?? SHAPES.skipped });
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, shape);
}

function badge(verdict, label) {
  return h("span", { class: `badge ${verdict}` }, icon(verdict), h("span", {}, label ?? verdict));
}

function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toFixed(1);
  return String(Number(value.toPrecision(4)));
}

function seconds(value) {
  if (typeof value !== "number") return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const whole = Math.round(value);
  const pad = (part) => String(part).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let power = 0;
  while (count >= 1024 && power < units.length - 1) [count, power] = [count / 1024, power + 1];
  return `${power === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[power]}`;
}

function counted(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : (many ?? `${one}s`)}`;
}

function moment(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return null;
  const options = { dateStyle: "medium", timeStyle: "short" };
  return h("time", { datetime: text, title: text }, time.toLocaleString("en-GB", options));
}

function isRecord(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function listOf(value) {
  return Array.isArray(value) ? value : [];
}
