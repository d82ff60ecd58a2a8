/** A producer and a worker whose server is killed under them: node restart.js QUEUE_URL. Says `working`, ends well. */

import assert from "node:assert/strict";
import { once } from "node:events";

import { Queue, Worker } from "../../clients/javascript/leaseway_javascript/index.js";

const [url] = process.argv.slice(2);
const quick = { random: () => 0.1 * Math.random() };
let goOn;
const gate = new Promise((resolve) => (goOn = resolve));
const worker = new Worker(url, {
  ...quick,
  handler: async (item, job) => {
    console.log("working");
    await gate;
    await job.progress({ after: "the restart" });
    return job.attempts;
  },
});
const queue = new Queue(url, quick);
const job = await queue.post({ a: 1 });
const ends = [];
const watching = (async () => {
  for await (const view of job) if (view.finishedAt) ends.push(view);
})();
const back = Promise.all([
  once(queue, "offline").then(() => once(queue, "online")),
  once(worker, "offline").then(() => once(worker, "online")),
]);
await back;
goOn();
await watching;
assert.deepEqual(
  ends.map(({ status, result, attempts, losses }) => [status, result, attempts, losses]),
  [["finished", 1, 1, 0]],
);
await worker.stop();
queue.close();
