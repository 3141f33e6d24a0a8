// Asks the server every two seconds for what is new, and shows it.

import { ask, reason } from "./ask.js";
import { Controls } from "./controls.js";
import { span } from "./format.js";
import { Heat } from "./heat.js";
import { Charts, Tiles } from "./panels.js";
import { Store } from "./store.js";
import { showEvents, showHot, showLatency, showOptions } from "./tables.js";

const [REFRESH_MS, HIDDEN_MS] = [2000, 10_000];
const RANGE = "micanite-range";
const $ = (id) => document.getElementById(id);

const store = new Store();
const tiles = new Tiles($("tiles"));
const heat = new Heat($("heat"));
const controls = new Controls($("controls"));
let charts = null;
let cursor = null;
let answeredAt = performance.now();
let silence = null;
/** The run of the server whose history is here; null until all of it is. */
let begun = null;

async function begin() {
  begun = null;
  const about = await ask("about");
  store.begin(about);
  const workers = `${about.workers} worker${about.workers > 1 ? "s" : ""}`;
  const up = `version ${about.version}, ${workers}, ${about.partitions} partitions`;
  $("address").textContent = about.address;
  $("about").textContent = up;
  showOptions($("options"), about);
  charts ??= new Charts($("charts"), store, (at) => { cursor = at; draw(); });
  controls.begin(about);
  for (const [step] of [...about.steps].reverse()) await fetchHistory(step);
  begun = about.boot;
}

async function fetchHistory(step) {
  let more = true;
  while (more) more = store.mergeHistory(await ask(`history?step=${step}&since=${store.ring(step).last}`));
}

async function refresh() {
  try {
    if (begun === null) await begin();
    let state = await ask(`state?${store.query()}`);
    if (state.boot !== begun) {
      await begin();
      state = await ask(`state?${store.query()}`);
    }
    if (store.merge(state)) await fetchHistory(1);
    if (state.coarse > store.ring(10).last) await fetchHistory(10);
    answeredAt = performance.now();
    silence = null;
    show();
    controls.look();
  } catch (error) {
    silence = reason(error);
    showAge();
  }
  setTimeout(refresh, document.hidden ? HIDDEN_MS : REFRESH_MS);
}

function show() {
  const { condition, now, started } = store.state;
  setText($("condition"), condition === "ready" ? `ready, up ${span(now - started)}` : condition);
  $("condition").className = condition === "ready" ? "good" : "bad";
  document.body.classList.remove("stale");
  document.title = `${condition === "ready" ? "" : `(${condition}) `}${store.about.address} – Micanite`;
  tiles.show(store);
  heat.show(store);
  showLatency($("latency"), store);
  showHot($("hot"), $("hot-note"), store);
  showEvents($("events"), store);
  controls.observe(store);
  draw();
}

/** The server does not answer: the page says so, and how old it is. */
function showAge() {
  if (silence === null) return;
  const age = span((performance.now() - answeredAt) / 1000);
  const isStarting = silence === "starting";
  document.body.classList.toggle("stale", !isStarting);
  const text = isStarting ? "the server starts" : `no answer for ${age}: ${silence}. The figures are from before.`;
  setText($("condition"), text);
  $("condition").className = "bad";
  document.title = `(no answer for ${age}) ${store.about?.address ?? ""} – Micanite`;
}

function setText(into, text) {
  if (into.textContent !== text) into.textContent = text;
}

function draw() {
  if (!charts || !store.last()) return;
  const seconds = Number(document.querySelector("input[name=range]:checked").value);
  charts.draw(store.rows(seconds), cursor);
}

/** The range that was chosen before the page was loaded again. Storage may be forbidden. */
function restoreRange() {
  try {
    const kept = sessionStorage.getItem(RANGE);
    document.querySelectorAll("input[name=range]").forEach((it) => { if (it.value === kept) it.checked = true; });
  } catch { /* The default stays. */ }
}

function keepRange(event) {
  try {
    sessionStorage.setItem(RANGE, event.target.value);
  } catch { /* It is lost at the next load. */ }
}

restoreRange();
$("ranges").addEventListener("change", (event) => { keepRange(event); draw(); });
new ResizeObserver(draw).observe($("charts"));
document.addEventListener("visibilitychange", () => { if (!document.hidden) draw(); });
setInterval(showAge, 1000);
refresh();
