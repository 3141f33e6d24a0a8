// Line and area charts in SVG, with a cursor that all of them share.

import { clock } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const [HEIGHT, LEFT, BOTTOM, TOP] = [150, 54, 18, 8];

export function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS(NS, name);
  Object.entries(attributes).forEach(([attribute, value]) => made.setAttribute(attribute, value));
  if (text) made.textContent = text;
  return made;
}

/** The next number of the form 1, 2 or 5 times a power of ten, or the next power of two. */
export function niceTop(value, base = 10) {
  if (!(value > 0)) return base === 2 ? 1024 : 1;
  if (base === 2) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((of) => of * power).find((of) => of >= value * 0.999);
}

/** Ticks of an axis: three even ones, or powers of ten. */
export function ticks(scale) {
  if (!scale.log) return [0, 0.5, 1].map((part) => scale.least + part * (scale.most - scale.least));
  const powers = [];
  const [first, last] = [scale.least, scale.most].map((end) => Math.round(Math.log10(end)));
  for (let at = first; at <= last; at++) powers.push(10 ** at);
  const step = Math.ceil(powers.length / 4);
  return powers.filter((_, at) => at % step === 0);
}

/** The scale that shows these values. */
export function scaleOf(values, { log, fixed, base, isTight }) {
  if (fixed) return { log: false, least: fixed[0], most: fixed[1] };
  const known = values.filter((value) => value !== null && (!log || value > 0));
  const most = known.length ? Math.max(...known) : 1;
  if (!log) return { log: false, least: 0, most: isTight && most > 0 ? most : niceTop(most, base) };
  const least = known.length ? Math.min(...known) : 1;
  const power = (of, round) => 10 ** round(Math.log10(of));
  const [low, high] = [power(least, Math.floor), power(most, Math.ceil)];
  return { log: true, least: low, most: high > low ? high : 10 * low };
}

/** The row whose time is nearest. */
export function nearest(rows, at) {
  let found = null;
  for (const row of rows) {
    if (!found || Math.abs(row[0] - at) <= Math.abs(found[0] - at)) found = row;
  }
  return found;
}

export class Chart {
  /** series: [{label, value: (row) => number or null}]; options: title, format, stacked, log,
   * fixed, and isTight: the axis ends at the largest value. */
  constructor(into, options, onCursor) {
    Object.assign(this, { stacked: false, log: false, fixed: null, base: 10, note: "" }, options);
    this.figure = document.createElement("figure");
    this.figure.className = "card chart";
    const caption = document.createElement("figcaption");
    caption.textContent = this.title;
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "group");
    this.legend = document.createElement("dl");
    this.legend.className = "legend";
    this.figure.append(caption, this.plot, this.legend);
    into.append(this.figure);
    this.onCursor = onCursor;
    this.plot.addEventListener("pointermove", (event) => onCursor(this.timeAt(event)));
    this.plot.addEventListener("pointerleave", () => onCursor(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("blur", () => onCursor(null));
  }

  timeAt(event) {
    const box = this.plot.getBoundingClientRect();
    const part = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT);
    return this.view ? this.view.from + Math.min(1, Math.max(0, part)) * (this.view.to - this.view.from) : null;
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") return this.onCursor(null);
    const rows = this.view?.rows ?? [];
    if (!(event.key in moves) || !rows.length) return undefined;
    event.preventDefault();
    const at = this.cursor === null ? rows.length - 1 : rows.indexOf(nearest(rows, this.cursor));
    const to = Math.min(rows.length - 1, Math.max(0, at + moves[event.key]));
    return this.onCursor(rows[to][0]);
  }

  draw(view, cursor) {
    [this.view, this.cursor] = [view, cursor];
    const width = Math.max(200, Math.round(this.plot.clientWidth));
    const columns = view.rows.map((row) => this.heights(row));
    const scale = scaleOf(columns.flat(), this);
    const x = (at) => LEFT + ((at - view.from) / (view.to - view.from)) * (width - LEFT - 2);
    const part = (value) => scale.log
      ? Math.log10(Math.max(value, scale.least) / scale.least) / Math.log10(scale.most / scale.least)
      : (value - scale.least) / (scale.most - scale.least);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(1, part(value)));
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, "aria-hidden": "true" });
    drawing.append(...this.axes(scale, width, x, y));
    this.series.forEach((_, at) => drawing.append(this.shape(at, columns, scale, x, y)));
    const row = cursor === null ? null : nearest(view.rows, cursor);
    if (row) {
      const at = x(row[0]);
      drawing.append(svg("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    this.plot.replaceChildren(drawing);
    this.tell(row ?? view.rows[view.rows.length - 1] ?? null, row !== null);
  }

  /** Upper ends of all series at a row. */
  heights(row) {
    let sum = 0;
    return this.series.map(({ value }) => {
      const of = value(row);
      if (!this.stacked) return of;
      sum += of ?? 0;
      return sum;
    });
  }

  axes(scale, width, x, y) {
    const parts = [];
    for (const value of ticks(scale)) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)));
    }
    const { from, to } = this.view;
    for (const part of [0, 0.5, 1]) {
      const anchor = ["start", "middle", "end"][part * 2];
      const at = from + part * (to - from);
      parts.push(svg("text", { x: x(at), y: HEIGHT - 4, "text-anchor": anchor }, clock(at, to - from <= 300)));
    }
    return parts;
  }

  /** A line, or an area on top of the series before it. It ends where samples are missing. */
  shape(at, columns, scale, x, y) {
    const { rows, step } = this.view;
    const runs = [];
    let before = null;
    rows.forEach((row, place) => {
      if (columns[place][at] === null) return void (before = null);
      if (before === null || row[0] - before > 2.5 * step) runs.push([]);
      runs[runs.length - 1].push(place);
      before = row[0];
    });
    const point = (place, value) => `${x(rows[place][0]).toFixed(1)},${y(value).toFixed(1)}`;
    const path = runs.map((run) => {
      const line = run.map((place) => point(place, columns[place][at]));
      if (!this.stacked) return `M${(line.length > 1 ? line : [line[0], line[0]]).join("L")}`;
      const below = run.map((place) => point(place, at ? columns[place][at - 1] : scale.least)).reverse();
      return `M${line.concat(below).join("L")}Z`;
    });
    return svg("path", { class: `${this.stacked ? "area" : "line"} c${at + 1}`, d: path.join("") });
  }

  /** Values under the cursor, or of now. */
  tell(row, isPast) {
    const entries = this.series.map(({ label, value }, at) => {
      const group = document.createElement("div");
      const [term, text] = [document.createElement("dt"), document.createElement("dd")];
      term.className = `mark c${at + 1}`;
      term.textContent = label;
      text.textContent = row ? this.format(value(row)) : "–";
      group.append(term, text);
      return group;
    });
    const when = document.createElement("div");
    when.className = "when";
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = isPast ? "at" : "now";
    text.textContent = row ? clock(row[0]) : "";
    when.append(term, text);
    const extra = row && this.note ? this.note(row) : "";
    if (extra) text.textContent += `, ${extra}`;
    this.legend.replaceChildren(...entries, when);
    const said = entries.map((entry) => `${entry.firstChild.textContent} ${entry.lastChild.textContent}`);
    this.plot.setAttribute("aria-label", `${this.title}, ${when.textContent}: ${said.join(", ")}`);
  }
}
