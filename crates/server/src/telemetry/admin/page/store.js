// What the page knows of the server. The server sends only what the page does not have.

const EVENTS_MAX = 128;
export const MODES = ["erew", "crew", "crcw"];

export class Store {
  constructor() {
    /** By seconds of a step: samples as [unix time, ...numbers], and the number of the last one. */
    this.rings = new Map();
    this.events = new Map();
    this.about = null;
    this.state = null;
    this.event = 0;
    this.forgetLoads();
  }

  forgetLoads() {
    this.workers = [];
    this.partitions = [];
    this.next = { worker: 0, partition: 0, generation: null, seen: 0 };
  }

  /** Takes /about. After a restart in place samples and events are counted on; otherwise those of before stay. */
  begin(about) {
    const before = this.about;
    if (before?.boot !== about.boot) this.forgetLoads();
    // Numbers of another program may have other places.
    if (before && before.names.join() !== about.names.join()) this.rings.clear();
    if (before?.series !== about.series) {
      this.rings.forEach((ring) => { ring.last = 0; });
      this.event = 0;
    }
    this.about = about;
    this.place = new Map(about.names.map((name, at) => [name, at + 1]));
    about.steps.forEach(([step, most]) => {
      if (!this.rings.has(step)) this.rings.set(step, { rows: [], last: 0, most });
    });
  }

  /** The query of the next /state. */
  query() {
    const { worker, partition, generation } = this.next;
    const parts = { since: this.ring(1).last, event: this.event, worker, partition };
    if (generation !== null) parts.generation = generation;
    return new URLSearchParams(parts).toString();
  }

  ring(step) {
    return this.rings.get(step);
  }

  /** Takes /state. Returns whether samples are missing that /history has. */
  merge(state) {
    if (state.boot !== this.about.boot) return false;
    this.state = state;
    const ring = this.ring(1);
    const hasGap = ring.last > 0 && state.first > ring.last + 1;
    // Samples behind a gap come with those of the gap, by /history.
    if (!hasGap) this.add(ring, state.first, state.rows);
    state.events.forEach((event) => this.note(event));
    this.mergeWorkers(state.workers);
    this.mergePartitions(state.partitions);
    return hasGap;
  }

  /** Takes one reply of /history. Returns whether there is more. */
  mergeHistory({ boot, step, first, last, rows }) {
    if (boot !== this.about.boot) return false;
    this.add(this.ring(step), first, rows);
    return rows.length > 0 && first + rows.length - 1 < last;
  }

  add(ring, first, rows) {
    rows.forEach((row, at) => {
      if (first + at <= ring.last) return;
      ring.rows.push([this.about.started + row[0], ...row.slice(1)]);
      ring.last = first + at;
    });
    if (ring.rows.length > ring.most) ring.rows.splice(0, ring.rows.length - ring.most);
  }

  note([id, number, kind, firstAt, lastAt, text, count]) {
    const key = `${this.about.series}/${id}`;
    this.events.delete(key);
    this.events.set(key, { kind, firstAt, lastAt, text, count });
    this.event = Math.max(this.event, number);
    while (this.events.size > EVENTS_MAX) this.events.delete(this.events.keys().next().value);
  }

  mergeWorkers({ of, from, rows }) {
    this.workers.length = of;
    rows.forEach(([rate, connections, cpu, upkeep, p99], at) => {
      this.workers[from + at] = { rate, connections, cpu, upkeep, p99 };
    });
    this.next.worker = from + rows.length < of ? from + rows.length : 0;
  }

  /** A row is a rate, or [rate, mode, owner] where the page may not know them. */
  mergePartitions({ of, from, generation, rows }) {
    const next = this.next;
    this.partitions.length = of;
    if (next.told !== generation) [next.told, next.seen, next.generation] = [generation, 0, null];
    rows.forEach((row, at) => {
      const known = this.partitions[from + at] || {};
      const [rate, mode, owner] = Array.isArray(row) ? row : [row, known.mode, known.owner];
      this.partitions[from + at] = { rate, mode, owner };
    });
    if (next.generation === null) next.seen += rows.length;
    // Every partition was told under this generation.
    if (next.seen >= of) next.generation = generation;
    next.partition = from + rows.length < of ? from + rows.length : 0;
  }

  /** A number of a sample by its name; null where it is not known. */
  number(row, name) {
    return row ? row[this.place.get(name)] ?? null : null;
  }

  /** The samples of the last seconds, from the ring that has them. */
  rows(seconds) {
    const [fine, coarse] = this.about.steps;
    const step = seconds <= fine[0] * fine[1] ? fine[0] : coarse[0];
    const rows = this.ring(step).rows;
    const end = this.end();
    return { step, rows: rows.filter((row) => row[0] > end - seconds - step), from: end - seconds, to: end };
  }

  last() {
    const rows = this.ring(1)?.rows ?? [];
    return rows.length ? rows[rows.length - 1] : null;
  }

  end() {
    return this.last()?.[0] ?? this.state?.now ?? 0;
  }

  /** All requests per second of a sample. */
  requests(row) {
    const names = ["get_hits", "get_misses", "set", "touch", "delete", "arithmetic", "flush"];
    return row ? names.reduce((sum, name) => sum + (this.number(row, name) ?? 0), 0) : null;
  }

  /** Part of gets that found their key; null without gets. */
  hitRatio(row) {
    const [hits, misses] = [this.number(row, "get_hits"), this.number(row, "get_misses")];
    return hits + misses > 0 ? hits / (hits + misses) : null;
  }
}
