/**
 * Random cuts between a producer, a worker, a page that watches `mine`, and their server:
 *
 *     node cut-loop.js QUEUE_URL TOKEN CUTS SEED
 *
 * Every job's end must be seen exactly once by whoever watches, none before its worker was done, and it must be the end
 * that the server knows. Ends well and says what it did, or tells what is wrong.
 */

import assert from "node:assert/strict";

import { Permanent, PostUnknown, Queue, Worker } from "../../clients/javascript/leaseway_javascript/index.js";
import { CuttingProxy } from "./support/cutting.js";

const [url, token, cuts, seed] = process.argv.slice(2);
const AT_ONCE = 8;
const random = mulberry(Number(seed));
const quick = { token, random: () => 0.002 * random() };

const proxy = new CuttingProxy(new URL(url), Number(cuts), random);
const cut = new URL(url);
cut.port = String(await proxy.listen());

/** By item: what its handlers did, and which ends were seen, by whom. */
const done = new Map();
const ends = { job: new Map(), mine: new Map() };
const faults = [];
/** What the page saw open, and what is called when it saw more. */
const opened = new Set();
let saw = () => {};

const queue = new Queue(cut, quick);
const page = new Queue(cut, quick);
const direct = new Queue(url, { token });
const worker = new Worker(cut, { ...quick, concurrency: 4, handler: work });

async function work(item, job) {
  if (item.steps) await job.progress({ step: 1 });
  await new Promise((resolve) => setTimeout(resolve, 5 * random()));
  done.set(job.id, item.n);
  if (item.bad) throw new Permanent("bad");
  return item.n;
}

function see(who, view) {
  if (view.finishedAt === null) return;
  const seen = ends[who].get(view.id) ?? [];
  ends[who].set(view.id, [...seen, view]);
  if (view.status !== "cancelled" && !done.has(view.id)) faults.push(`${view.id} is ${view.status} and nobody did it`);
}

const leave = new AbortController();
const watching = (async () => {
  for await (const view of page.watch("mine", { signal: leave.signal })) {
    opened.add(view.id);
    see("mine", view);
    saw();
  }
})().catch((error) => {
  if (error.name !== "AbortError") faults.push(`mine: ${error}`);
});

/** One job after the other until there were enough cuts. */
async function produce(first) {
  for (let n = first; proxy.cuts < Number(cuts); n += AT_ONCE) {
    const job = await postSurely({ n, steps: n % 3 === 0, bad: n % 5 === 0 }, `job-${n}`);
    if (n % 7 === 0) await job.cancel();
    for await (const view of job) see("job", view);
    const shown = await direct.ask("GET", `items/${job.id}`);
    const [seen] = ends.job.get(job.id);
    for (const member of ["rev", "status", "result", "finishedAt"])
      assert.deepEqual(seen[member], shown[member], member);
  }
}

async function postSurely(item, key) {
  for (;;) {
    try {
      return await queue.post(item, { key });
    } catch (error) {
      if (!(error instanceof PostUnknown)) throw error;
    }
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, (_, first) => produce(first)));
// Whatever the page saw open must end there too, though its end may have been fetched by the producer in a gap.
while ([...opened].some((id) => !ends.mine.has(id))) await new Promise((resolve) => (saw = resolve));
leave.abort();
await watching;
await worker.stop();
for (const one of [queue, page, direct, proxy]) one.close();

for (const [who, seen] of Object.entries(ends)) {
  for (const [id, views] of seen) if (views.length !== 1) faults.push(`${who} saw ${views.length} ends of ${id}`);
}
assert.deepEqual(faults, []);
assert.ok(ends.job.size > 0 && ends.mine.size > 0);
const losses = [...ends.job.values()].filter(([view]) => view.losses > 0).length;
console.log(
  `did ${proxy.cuts} cuts: ${ends.job.size} ends seen by jobs (${losses} with losses), ${ends.mine.size} by mine`,
);

/** The same chance for the same seed. */
function mulberry(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
