// Exercises memjs, which speaks the binary protocol, against a server, and prints a verdict per check.
//
//   node main.mjs HOST:PORT PREFIX [USER PASSWORD]
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import zlib from "node:zlib";
import memjs from "memjs";

const EXPIRY_DEADLINE_MS = 20_000;
const LARGE_BYTES = 2 ** 20 - 300;
const TOO_LARGE_BYTES = 2 * 2 ** 20;
const MANY_KEYS = 500;
const COMPRESSED = 0x2;

const [address, prefix, username, password] = process.argv.slice(2);
const options = { timeout: 30, retries: 1, logger: { log() {} }, username, password };
const client = memjs.Client.create(address, options);
const key = (name) => `${prefix}-node-${name}`;

async function is(name, value) {
  const found = await client.get(name);
  assert.ok(found.value !== null, `${name} is not there`);
  assert.ok(found.value.equals(Buffer.from(value)), `${name} is another value, of ${found.value.length} bytes`);
}

async function missing(name) {
  assert.equal((await client.get(name)).value, null);
}

async function expires(name) {
  const end = Date.now() + EXPIRY_DEADLINE_MS;
  while ((await client.get(name)).value !== null) {
    assert.ok(Date.now() < end, "it is still there");
    await pause(20);
  }
}

// memjs leaves flags to a serializer: this one compresses, and says so in the flags.
const compressing = memjs.Client.create(address, {
  ...options,
  serializer: {
    serialize(opcode, value, extras) {
      extras.writeUInt32BE(COMPRESSED, 0);
      return { value: zlib.deflateSync(value), extras };
    },
    deserialize(opcode, value, extras) {
      assert.equal(extras.readUInt32BE(0), COMPRESSED);
      return { value: zlib.inflateSync(value), extras };
    },
  },
});

const checks = {
  async "get-set"() {
    await missing(key("get-set"));
    for (const value of ["value", "", "line\r\nbreak", Buffer.from([0, 0xff])]) {
      assert.equal(await client.set(key("get-set"), value, {}), true);
      await is(key("get-set"), value);
    }
  },
  async add() {
    assert.equal(await client.add(key("add"), "first", {}), true);
    assert.equal(await client.add(key("add"), "second", {}), false);
    await is(key("add"), "first");
  },
  async replace() {
    assert.equal(await client.replace(key("replace"), "x", {}), false);
    await client.set(key("replace"), "old", {});
    assert.equal(await client.replace(key("replace"), "new", {}), true);
    await is(key("replace"), "new");
  },
  async "append-prepend"() {
    await assert.rejects(client.append(key("append"), ">"), /not stored/);
    await client.set(key("append"), "middle", {});
    assert.equal(await client.append(key("append"), ">"), true);
    // memjs 1.3.2 sends the opcode of append for prepend too.
    assert.equal(await client.prepend(key("append"), "<"), true);
    await is(key("append"), "middle><");
  },
  async "incr-decr"() {
    const counter = key("incr");
    assert.deepEqual(await client.increment(counter, 1, { initial: 10 }), { success: true, value: 10 });
    assert.deepEqual(await client.increment(counter, 32, {}), { success: true, value: 42 });
    assert.deepEqual(await client.decrement(counter, 100, {}), { success: true, value: 0 });
    await client.set(counter, "text", {});
    await assert.rejects(client.increment(counter, 1, {}), /non-numeric/);
  },
  async touch() {
    assert.equal(await client.touch(key("touch"), 100), false);
    await client.set(key("touch"), "x", { expires: 100 });
    assert.equal(await client.touch(key("touch"), 1), true);
    await expires(key("touch"));
  },
  async delete() {
    assert.equal(await client.delete(key("delete")), false);
    await client.set(key("delete"), "x", {});
    assert.equal(await client.delete(key("delete")), true);
    await missing(key("delete"));
  },
  async pipelined() {
    const names = Array.from({ length: MANY_KEYS }, (_, number) => key(`many-${number}`));
    await Promise.all(names.map((name) => client.set(name, `value of ${name}`, {})));
    await Promise.all(names.map((name) => is(name, `value of ${name}`)));
  },
  async expiry() {
    const later = Math.floor(Date.now() / 1000) + 1000;
    await client.set(key("expiry"), "x", { expires: later });
    await is(key("expiry"), "x");
    await client.set(key("expiry"), "x", { expires: 1 });
    await expires(key("expiry"));
  },
  async large() {
    const value = Buffer.alloc(LARGE_BYTES, "0123456789abcdef");
    assert.equal(await client.set(key("large"), value, {}), true);
    await is(key("large"), value);
    await assert.rejects(client.set(key("large"), Buffer.alloc(TOO_LARGE_BYTES), {}), /too large/);
    await client.set(key("large"), "after", {});
    await is(key("large"), "after");
  },
  async "flags-compression"() {
    const value = Buffer.alloc(300_000, "compressible ");
    assert.equal(await compressing.set(key("compressed"), value, {}), true);
    assert.ok((await compressing.get(key("compressed"))).value.equals(value));
    const stored = await client.get(key("compressed"));
    assert.equal(stored.flags.readUInt32BE(0), COMPRESSED);
    assert.ok(stored.value.length < value.length / 10);
  },
  async stats() {
    const stats = await new Promise((resolve, reject) =>
      client.stats((error, server, found) => (error ? reject(error) : resolve(found))),
    );
    assert.ok(Number(stats.pid) > 0 && Number(stats.curr_items) > 0);
  },
  async flush() {
    await client.set(key("flush"), "x", {});
    await client.flush();
    await missing(key("flush"));
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${String(error?.message ?? error).replaceAll("\n", " ")}`);
  }
}
client.close();
compressing.close();
console.log(`verdict: ${Object.keys(checks).length - failed} ok, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
