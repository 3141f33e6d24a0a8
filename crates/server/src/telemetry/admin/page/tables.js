// Tables and the list of events. All text is put in as text, never as markup.

import { duration, moment, percent, short } from "./format.js";

const CLASSES = [
  ["get", ["get_hits", "get_misses"]], ["set", ["set"]], ["touch", ["touch"]], ["delete", ["delete"]],
  ["arithmetic", ["arithmetic"]],
];
const KINDS = {
  start: "start", end: "end", routes: "mode", secrets: "secrets", refusal: "refused", control: "control",
  login: "login",
};

export function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  Object.entries(attributes).forEach(([attribute, value]) => made.setAttribute(attribute, value));
  return made;
}

/** A table that becomes a list of cards where it does not fit; the roles survive that. */
export function table(caption, heads, rows) {
  const made = element("table", null, { role: "table", class: "stack" });
  made.append(element("caption", caption, { class: "unseen" }));
  const head = element("tr", null, { role: "row" });
  head.append(...heads.map((text) => element("th", text, { scope: "col", role: "columnheader" })));
  const [thead, tbody] = [element("thead", null, { role: "rowgroup" }), element("tbody", null, { role: "rowgroup" })];
  thead.append(head);
  tbody.append(...rows.map((cells) => {
    const row = element("tr", null, { role: "row" });
    row.append(...cells.map((text, at) => at === 0
      ? element("th", text, { scope: "row", role: "rowheader" })
      : element("td", text, { role: "cell", "data-head": heads[at] })));
    return row;
  }));
  made.append(thead, tbody);
  return made;
}

export function showLatency(into, store) {
  const row = store.last();
  if (!row) return;
  const rows = CLASSES.map(([name, counts]) => {
    const rate = counts.reduce((sum, count) => sum + (store.number(row, count) ?? 0), 0);
    // A turn that ends in the next sample is timed there.
    const timed = Math.min(rate, store.number(row, `${name}_timed`) ?? 0);
    const times = ["p50", "p99", "p999"].map((part) => duration(store.number(row, `${name}_${part}`)));
    return { rate, timed, cells: [name, short(rate), short(timed), percent(rate > 0 ? timed / rate : null), ...times] };
  });
  const seen = rows.filter(({ rate, timed }) => rate > 0 || timed > 0).map(({ cells }) => cells);
  if (!seen.length) return void into.replaceChildren(element("p", "No requests in the last second."));
  const heads = ["Command", "Requests/s", "Timed/s", "Timed", "50 %", "99 %", "99.9 %"];
  into.replaceChildren(table("Time of requests by command, in the last second", heads, seen));
}

export function showHot(into, note, store) {
  const { hot, full, hot_samples: samples } = store.state;
  const rate = store.requests(store.last()) ?? 0;
  if (!hot?.length) {
    note.textContent = "";
    const text = hot ? "Nothing is asked for." : "Names of keys are shown to users who have logged in.";
    return void into.replaceChildren(element("p", text));
  }
  const rows = hot.map(([key, share]) => [key, percent(share), short(share * rate)]);
  const made = table("Keys that are asked for most", ["Key", "Share", "Requests/s"], rows);
  full.forEach(([place, key]) => { made.tBodies[0].rows[place].cells[0].title = key; });
  into.replaceChildren(made);
  note.textContent = `Estimated from ${short(samples)} samples that fade with a half-life of 20 s.`;
  return undefined;
}

export function showEvents(into, store) {
  const events = [...store.events.values()].reverse();
  into.replaceChildren(...events.map(({ kind, firstAt, lastAt, text, count }) => {
    const entry = element("li", null, { class: kind });
    const at = element("time", moment(lastAt, store.state.now), { datetime: new Date(lastAt * 1000).toISOString() });
    entry.append(at, element("strong", KINDS[kind] ?? kind), element("span", text));
    if (count > 1) entry.append(element("em", `${short(count)} times since ${moment(firstAt, store.state.now)}`));
    return entry;
  }));
  if (!events.length) into.append(element("li", "None yet."));
}

/** The configuration: what was set first, the defaults on demand. */
export function showOptions(into, about) {
  const heads = ["Option", "Value", "From"];
  const [said, defaults] = [[], []];
  about.options.forEach(([name, value, from]) => (from === "default" ? defaults : said).push([name, value, from]));
  const details = element("details", null);
  details.append(element("summary", `${defaults.length} defaults`));
  details.append(table("Options that have their defaults", heads, defaults));
  const nothing = element("p", "Everything is at its default.");
  const first = said.length ? table("Options that were set", heads, said) : nothing;
  into.replaceChildren(first, details);
}
