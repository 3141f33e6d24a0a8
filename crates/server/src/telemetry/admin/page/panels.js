// Key figures and charts: which numbers they show.

import { Chart } from "./charts.js";
import { bytes, duration, percent, short } from "./format.js";

const COMMANDS = [
  ["get", (store, row) => store.number(row, "get_hits") + store.number(row, "get_misses")],
  ["set", (store, row) => store.number(row, "set")],
  ["touch", (store, row) => store.number(row, "touch")],
  ["delete", (store, row) => store.number(row, "delete")],
  ["incr, decr", (store, row) => store.number(row, "arithmetic")],
];

const TILES = [
  ["Requests per second", (store, row) => short(store.requests(row))],
  ["Hit ratio of gets", (store, row) => percent(store.hitRatio(row))],
  ["99 % of requests within", (store, row) => duration(store.number(row, "all_p99"))],
  ["Items", (store, row) => short(store.number(row, "items"))],
  ["Evictions per second", (store, row) => short(store.number(row, "evictions"))],
  ["Connections", (store, row) => short(store.number(row, "connections"))],
  ["Expiry lag, seconds", (store, row) => short(store.number(row, "lag_s"))],
  ["CPU of workers, cores", (store, row) => store.number(row, "cpu")?.toFixed(2) ?? "–"],
];

export class Tiles {
  constructor(into) {
    this.values = TILES.map(([title]) => {
      const tile = document.createElement("div");
      tile.className = "card tile";
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = title;
      value.textContent = "–";
      tile.append(term, value);
      into.append(tile);
      return value;
    });
  }

  show(store) {
    const row = store.last();
    TILES.forEach(([, text], at) => { if (row) this.values[at].textContent = text(store, row); });
  }
}

const series = (entries) => entries.map(([label, value]) => ({ label, value }));

/** Memory by use up to the limit of now, which --memory-max lets grow. */
export function memoryChart(of) {
  const used = ["item_bytes", "index_bytes", "dead_bytes"].map(of);
  const rest = (row) => Math.max(0, of("memory_limit")(row) - used.reduce((sum, value) => sum + value(row), 0));
  return { title: "Memory by use", format: bytes, stacked: true, isTight: true,
    series: series([["items", used[0]], ["index", used[1]], ["deleted, expired", used[2]],
      ["free, overwritten", rest]]) };
}

/** All charts, with one cursor. */
export class Charts {
  constructor(into, store, onCursor) {
    const of = (name) => (row) => store.number(row, name);
    // A turn that ends in the next sample is timed there: as many as there were at most.
    const timed = (row) => {
      const rate = store.requests(row);
      return `${short(Math.min(rate, store.number(row, "all_timed")))}/s timed of ${short(rate)}/s`;
    };
    const charts = [
      { title: "Requests per second by command", format: short,
        series: COMMANDS.map(([label, value]) => ({ label, value: (row) => value(store, row) })) },
      { title: "Hit ratio of gets", format: percent, fixed: [0, 1],
        series: series([["hits", (row) => store.hitRatio(row)]]) },
      { title: "Time of requests, all commands", format: duration, log: true, note: timed,
        series: series([["50 %", of("all_p50")], ["99 %", of("all_p99")], ["99.9 %", of("all_p999")]]) },
      { title: "Items that leave, per second", format: short,
        series: series([["evicted", of("evictions")], ["from full buckets", of("evictions_bucket_full")],
          ["expired", of("expired")]]) },
      memoryChart(of),
      { title: "Connections", format: short,
        series: series([["open", of("connections")], ["new per second", of("accepted")]]) },
      { title: "Refused per second", format: short,
        series: series([["values", of("refused")], ["connections", of("rejected")]]) },
      { title: "Bytes per second", format: bytes, base: 2,
        series: series([["received", of("received")], ["sent", of("sent")]]) },
      { title: "Expiry lag in seconds", format: short, series: series([["longest in the last sweep", of("lag_s")]]) },
    ];
    this.charts = charts.map((options) => new Chart(into, options, onCursor));
  }

  draw(view, cursor) {
    this.charts.forEach((chart) => chart.draw(view, cursor));
  }
}
