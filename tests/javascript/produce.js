/** A producer and a worker against a real server: node produce.js QUEUE_URL TOKEN. Ends well or tells what is wrong. */

import assert from "node:assert/strict";

import * as leaseway from "../../clients/javascript/leaseway_javascript/index.js";

const { Cancelled, Failed, Permanent, Queue, Rejected, Release, UnknownItem, Worker, listQueues } = leaseway;
const [url, token] = process.argv.slice(2);
const queue = new Queue(url, { token });
const EVIL = JSON.parse('{"__proto__": {"polluted": true}, "constructor": {"prototype": 1}, "text": "<script>"}');

const ends = new Map();
let released = 0;
const HANDLERS = {
  echo: (item) => item,
  nothing: () => undefined,
  permanent: () => {
    throw new Permanent("never", { code: "never", detail: EVIL });
  },
  once: (_item, job) => {
    if (job.attempts === 1) throw new Error("the first time");
    return job.attempts;
  },
  release: () => {
    if (released++ === 0) throw new Release();
    return "after all";
  },
  unsayable: () => new Uint8Array(3),
  large: () => "x".repeat(2_000_000),
  steps: async (_item, job) => {
    await job.progress({ percent: 50, __proto__: null });
    await assert.rejects(job.progress(NaN), Rejected);
    return job.meta;
  },
  endless: (_item, job) =>
    new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason))),
};
const worker = new Worker(url, { token, concurrency: 3, handler: (item, job) => HANDLERS[item.do](item, job) });
worker.addEventListener("end", ({ id, verb, error }) => ends.set(id, [verb, error?.name ?? null]));
const ended = (id) =>
  new Promise((resolve) => worker.addEventListener("end", (event) => event.id === id && resolve(ends.get(id))));

async function post(name, options = {}, more = {}) {
  return queue.post({ do: name, ...more }, options);
}

// Results, and what became of them.
assert.deepEqual((await (await post("echo", {}, { evil: EVIL })).result).evil, EVIL);
assert.equal({}.polluted, undefined);
assert.equal(await (await post("nothing")).result, null);
assert.equal(await (await post("release")).result, "after all");
assert.deepEqual(await (await post("steps", { meta: { trace: "a" } })).result, { trace: "a" });
await assert.rejects((await post("permanent")).result, (error) => {
  assert.ok(error instanceof Failed);
  assert.deepEqual(error.error, { message: "never", code: "never", detail: EVIL });
  return true;
});
for (const name of ["unsayable", "large"]) await assert.rejects((await post(name)).result, /the result was refused/);

const text = "é".repeat(400 * 1024); // 800 KiB
assert.equal((await (await post("echo", {}, { text })).result).text, text);

// A retryable fault, seen by an iteration: the end comes once, and last.
const seen = [];
const once = await post("once");
for await (const view of once) seen.push(view.status);
assert.equal(seen.filter((status) => status === "finished").length, 1);
assert.equal(seen.at(-1), "finished");
assert.equal(await once.result, 2);
const again = [];
for await (const { status } of once) again.push(status);
assert.deepEqual(again, ["finished"]);

// Keys.
const first = await post("echo", { key: "k", priority: 5, ttlMs: 60_000, maxAttempts: 2 });
const second = await post("echo", { key: "k", priority: 5 });
assert.deepEqual([second.id === first.id, first.duplicate, second.duplicate], [true, false, true]);
await assert.rejects(post("echo", { key: "k" }, { other: 1 }), { name: "Rejected", code: "conflict" });
await assert.rejects(
  post("echo", { priority: 101 }),
  (error) => error instanceof Rejected && error.errors.length === 1,
);

// Cancel, of what waits and of what is worked on.
const later = await post("echo", { delayMs: 3_600_000 });
assert.equal(await later.cancel(), true);
assert.equal(await later.cancel(), true);
await assert.rejects(later.result, Cancelled);
assert.equal(await first.cancel(), false);
await assert.rejects(queue.cancel("0000000000000000"), UnknownItem);
const endless = await post("endless");
for await (const { status } of endless) if (status === "processing") break;
const told = ended(endless.id);
assert.equal(await endless.cancel(), true);
assert.deepEqual(await told, ["cancelled", "LeaseLost"]);

// Looking.
const [figures] = [await queue.stats().next()].map(({ value }) => value);
assert.equal(figures.counts.finished + figures.counts.failed + figures.counts.cancelled > 8, true);
assert.equal((await queue.ask("GET", `items/${first.id}`)).status, "finished");
assert.equal(
  (await queue.ask("GET", "items", { query: { status: ["failed", "cancelled"], limit: "2" } })).items.length,
  2,
);
await assert.rejects(queue.ask("GET", "items/0000000000000000"), UnknownItem);
await assert.rejects(queue.ask("POST", `items/${first.id}/cancel`), { name: "Rejected", code: "conflict" });
assert.equal((await queue.ask("GET", "/_health")).status, "ok");
const [{ queue: name, rights }] = await listQueues(new URL("/", url), { token });
assert.deepEqual([name, rights.includes("post")], [queue.name, true]);
await assert.rejects(listQueues(new URL("/", url), { token: "none" }), { name: "Unauthorized" });
assert.equal(await queue.ask("DELETE", `items/${first.id}`), null);

// The page is loaded anew: what is open is found again, and its end comes.
const open = [await post("echo", { delayMs: 400 }), await post("echo", { delayMs: 450 })].map(({ id }) => id);
const reloaded = new Queue(url, { token });
const mine = new Map();
for await (const { id, status } of reloaded.watch("mine")) {
  if (status === "finished" && open.includes(id)) mine.set(id, (mine.get(id) ?? 0) + 1);
  if (mine.size === 2) break;
}
assert.deepEqual([...mine.values()], [1, 1]);

await worker.stop();
assert.deepEqual(
  [...ends.values()].filter(([verb, error]) => verb === "result" && error),
  [],
);
reloaded.close();
queue.close();
