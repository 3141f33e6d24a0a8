// Workers and their partitions as a heat map: the warmer, the more requests.

import { duration, percent, short } from "./format.js";
import { MODES } from "./store.js";
import { element } from "./tables.js";

export class Heat {
  constructor(into) {
    this.into = into;
    this.shape = null;
  }

  show(store) {
    const { workers, partitions } = store;
    const shape = JSON.stringify([workers.length, partitions.map((it) => it && [it.owner, it.mode])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(workers, partitions);
    }
    const most = (of) => Math.max(1, ...of.map((it) => it?.rate ?? 0));
    const [busiest, hottest] = [most(workers), most(partitions)];
    workers.forEach((load, worker) => this.fillWorker(load, worker, busiest));
    partitions.forEach((partition, number) => this.fillCell(partition, number, hottest));
  }

  build(workers, partitions) {
    const owned = Array.from(workers, () => []);
    partitions.forEach((partition, number) => { owned[partition?.owner]?.push(number); });
    this.cells = new Map();
    this.rows = owned.map((numbers, worker) => {
      const row = element("li", null, { class: "worker" });
      const head = element("div", null, { class: "load" });
      const [name, text] = [element("strong", `worker ${worker}`), element("span", "")];
      const bar = element("div", null, { class: "meter", "aria-hidden": "true" });
      bar.append(element("div", null));
      head.append(name, text, bar);
      const cells = element("ul", null, { class: "cells", "aria-label": `Partitions of worker ${worker}` });
      cells.append(...numbers.map((number) => this.cell(number)));
      if (!numbers.length) cells.append(element("li", "owns none", { class: "dim" }));
      row.append(head, cells);
      return { text, bar: bar.firstChild };
    });
    const list = element("ol", null, { class: "workers", tabindex: "0", "aria-label": "Workers" });
    list.append(...this.rows.map(({ text }) => text.closest("li")));
    this.into.replaceChildren(this.legend(partitions), list);
  }

  cell(number) {
    const cell = element("li", null);
    cell.append(element("b", String(number)), element("span", ""), element("i", ""));
    this.cells.set(number, cell);
    return cell;
  }

  legend(partitions) {
    const counts = MODES.map((mode, at) => [mode, partitions.filter((it) => it?.mode === at).length]);
    const modes = counts.filter(([, count]) => count).map(([mode, count]) => `${count} ${mode}`).join(", ");
    const text = `${partitions.length} partitions: ${modes || "–"}. Each cell: number, requests per second, mode. `
      + "The warmer a cell, the more requests; cells stand at the worker that owns them.";
    return element("p", text, { class: "dim note" });
  }

  fillWorker(load, worker, busiest) {
    const row = this.rows[worker];
    if (!load || !row) return;
    const parts = [`${short(load.rate)}/s`, `${percent(load.cpu)} CPU`, `${percent(load.upkeep)} upkeep`,
      `${short(load.connections)} connections`, `99 % within ${duration(load.p99)}`];
    row.text.textContent = parts.join(" · ");
    row.bar.style.width = `${(100 * load.rate) / busiest}%`;
  }

  fillCell(partition, number, hottest) {
    const cell = this.cells.get(number);
    if (!cell || !partition) return;
    const mode = MODES[partition.mode] ?? "";
    const isCounted = partition.rate !== null;
    cell.style.setProperty("--heat", isCounted ? `${Math.round((100 * partition.rate) / hottest)}%` : "0%");
    cell.className = mode;
    cell.children[1].textContent = isCounted ? short(partition.rate) : "";
    cell.children[2].textContent = mode;
    const load = isCounted ? `${short(partition.rate)} requests per second` : "load is not counted with one worker";
    cell.title = `partition ${number}: ${load}, `
      + `${mode}, owned by worker ${partition.owner}`;
  }
}
