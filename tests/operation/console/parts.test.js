// Parts of the console's page that need no browser: numbers, scales, and what the page keeps of the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Chart, nearest, niceTop, scaleOf, ticks } from "./charts.js";
import { bytes, duration, percent, short, span } from "./format.js";
import { memoryChart } from "./panels.js";
import { Store } from "./store.js";

const ABOUT = {
  boot: 1, series: 1, started: 1000, workers: 3, partitions: 5, steps: [[1, 4], [10, 4]],
  names: ["get_hits", "get_misses", "set", "touch", "delete", "arithmetic", "flush"],
};

function state(changed) {
  return {
    boot: 1, first: 1, rows: [], events: [], workers: { of: 3, from: 0, rows: [] },
    partitions: { of: 5, from: 0, generation: 7, rows: [] }, ...changed,
  };
}

function begun() {
  const store = new Store();
  store.begin(ABOUT);
  return store;
}

const sample = (at, hits = 0) => [at, hits, 1, 2, 0, 0, 0, 0];

test("numbers are short and keep their magnitude", () => {
  const cases = [
    [short, 0, "0"], [short, 0.5, "0.5"], [short, 999, "999"], [short, 9994, "9994"], [short, 12345, "12.3 k"],
    [short, 1.5e7, "15 M"], [short, 123456789, "123 M"], [short, null, "–"], [short, NaN, "–"],
    [bytes, 0, "0 B"], [bytes, 1023, "1023 B"], [bytes, 1536, "1.5 KiB"], [bytes, 2 ** 40, "1 TiB"], [bytes, null, "–"],
    [duration, 0.5, "0.5 µs"], [duration, 1500, "1.5 ms"], [duration, 2.5e6, "2.5 s"], [duration, null, "–"],
    [percent, 0, "0 %"], [percent, 1, "100 %"], [percent, 0.123, "12.3 %"], [percent, 0.00012, "0.012 %"],
    [percent, null, "–"], [span, 0, "0 s"], [span, 59.9, "59 s"], [span, 61, "1 min 1 s"], [span, 90000, "1 d 1 h"],
  ];
  for (const [format, value, expected] of cases) assert.equal(format(value), expected, `${format.name} ${value}`);
});

test("scales hold their values", () => {
  assert.deepEqual([0, 0.3, 1, 7, 12, 999].map((value) => niceTop(value)), [1, 0.5, 1, 10, 20, 1000]);
  assert.deepEqual([0, 1000, 1025].map((value) => niceTop(value, 2)), [1024, 1024, 2048]);
  assert.deepEqual(ticks(scaleOf([3, null, 8], {})), [0, 5, 10]);
  assert.deepEqual(ticks(scaleOf([], { fixed: [0, 1] })), [0, 0.5, 1]);
  const log = scaleOf([30, 4000, null, 0], { log: true });
  assert.deepEqual([log.least, log.most], [10, 10000]);
  assert.ok(ticks(log).length <= 4 && ticks(scaleOf([null], { log: true })).length > 0);
});

test("the axis of memory by use ends at the limit of now, however high it may go", () => {
  const limit = 64 * 2 ** 20;
  const chart = memoryChart((name) => (row) => row[name]);
  const row = { item_bytes: 10, index_bytes: 20, dead_bytes: 30, memory_limit: limit };
  const heights = Chart.prototype.heights.call(chart, row);
  assert.deepEqual(heights, [10, 30, 60, limit]);
  assert.deepEqual(ticks(scaleOf(heights, chart)), [0, limit / 2, limit]);
  assert.equal(scaleOf([null], chart).most, 1);
  // More is used than a lowered limit allows.
  assert.equal(scaleOf(Chart.prototype.heights.call(chart, { ...row, memory_limit: 40 }), chart).most, 60);
});

test("the nearest row is found", () => {
  assert.equal(nearest([], 5), null);
  assert.deepEqual(nearest([[1], [4], [9]], 5), [4]);
});

test("samples are taken once, and the oldest go", () => {
  const store = begun();
  assert.equal(store.query(), "since=0&event=0&worker=0&partition=0");
  assert.equal(store.merge(state({ first: 1, rows: [sample(1, 3), sample(2)] })), false);
  assert.equal(store.merge(state({ first: 2, rows: [sample(2), sample(3)] })), false);
  assert.deepEqual(store.ring(1).rows.map((row) => row[0]), [1001, 1002, 1003]);
  // Two were missed: the history has them, and the newest one.
  assert.equal(store.merge(state({ first: 6, rows: [sample(6)] })), true);
  assert.equal(store.ring(1).last, 3);
  const missed = [sample(4), sample(5), sample(6)];
  assert.equal(store.mergeHistory({ boot: 1, step: 1, first: 4, last: 6, rows: missed }), false);
  store.merge(state({ first: 7, rows: [sample(7, 3)] }));
  assert.deepEqual(store.ring(1).rows.map((row) => row[0]), [1004, 1005, 1006, 1007]);
  assert.equal(store.requests(store.last()), 6);
  assert.equal(store.hitRatio(store.last()), 0.75);
  assert.equal(store.mergeHistory({ boot: 1, step: 10, first: 1, last: 3, rows: [sample(10), sample(20)] }), true);
  assert.equal(store.mergeHistory({ boot: 1, step: 10, first: 3, last: 3, rows: [sample(30)] }), false);
  assert.deepEqual([store.rows(4).step, store.rows(30).step], [1, 10]);
});

test("partitions are told in turns, and their owners once", () => {
  const store = begun();
  const partitions = (from, generation, rows) => store.merge(state({ partitions: { of: 5, from, generation, rows } }));
  partitions(0, 7, [[10, 1, 0], [20, 1, 1], [30, 1, 2]]);
  assert.ok(store.query().includes("partition=3") && !store.query().includes("generation"));
  partitions(3, 7, [[40, 1, 0], [50, 1, 1]]);
  assert.ok(store.query().includes("partition=0") && store.query().includes("generation=7"));
  partitions(0, 7, [11, 21, 31, 41, 51]);
  assert.deepEqual(store.partitions[4], { rate: 51, mode: 1, owner: 1 });
  partitions(0, 8, [[12, 2, 2], [22, 2, 2], [32, 2, 2]]);
  assert.ok(!store.query().includes("generation"));
});

test("events are replaced when they are counted further", () => {
  const store = begun();
  store.merge(state({ events: [[1, 1, "start", 1000, 1000, "started", 1], [2, 2, "refusal", 1001, 1001, "no", 1]] }));
  store.merge(state({ events: [[2, 5, "refusal", 1001, 1030, "no", 9]] }));
  assert.deepEqual([...store.events.values()].map(({ count }) => count), [1, 9]);
  assert.ok(store.query().includes("event=5"));
});

test("after a restart in place the page goes on with the next sample and the next event", () => {
  const store = begun();
  const started = [1, 1, "start", 1000, 1000, "started", 1];
  store.merge(state({ rows: [sample(1), sample(2)], events: [started] }));
  store.begin({ ...ABOUT, boot: 2, started: 1010 });
  assert.equal(store.query(), "since=2&event=1&worker=0&partition=0");
  // It was taken by the program before: its time is before the start.
  assert.equal(store.mergeHistory({ boot: 2, step: 1, first: 3, last: 3, rows: [sample(-7)] }), false);
  store.merge(state({ boot: 2, first: 4, rows: [sample(1)], events: [[2, 2, "start", 1010, 1010, "restarted", 1]] }));
  assert.deepEqual(store.ring(1).rows.map((row) => row[0]), [1001, 1002, 1003, 1011]);
  assert.deepEqual([...store.events.values()].map(({ text }) => text), ["started", "restarted"]);
});

test("after a start from nothing the samples of before stay", () => {
  const store = begun();
  store.merge(state({ rows: [sample(1), sample(2)], workers: { of: 3, from: 0, rows: [[1, 0, 0, 0, null]] } }));
  assert.equal(store.next.worker, 1);
  store.begin({ ...ABOUT, boot: 2, series: 2, started: 1010 });
  assert.equal(store.query(), "since=0&event=0&worker=0&partition=0");
  store.merge(state({ boot: 1, first: 3, rows: [sample(3)] }));
  store.merge(state({ boot: 2, first: 1, rows: [sample(1)] }));
  assert.deepEqual(store.ring(1).rows.map((row) => row[0]), [1001, 1002, 1011]);
});
