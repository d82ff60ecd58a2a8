/**
 * A page whose token ends while it is open: node expiring.js QUEUE_URL TOKEN NEXT_TOKEN. Says `open`, ends well.
 */

import assert from "node:assert/strict";
import { once } from "node:events";

import { Queue, Unauthorized } from "../../clients/javascript/leaseway_javascript/index.js";

const [url, ...tokens] = process.argv.slice(2);
const [first] = tokens;
const quick = { random: () => 0.1 };
const renewed = new Queue(url, { getToken: () => tokens.shift(), ...quick });
const job = await renewed.post({ a: 1 }, { delayMs: 3_600_000 });
const mine = renewed.watch("mine");
assert.equal((await mine.next()).value.id, job.id);
const fixed = new Queue(url, { token: first, ...quick });
await fixed.connected();
const result = assert.rejects(fixed.job(job.id).result, Unauthorized);
const back = once(renewed, "offline").then(() => once(renewed, "online"));
console.log("open");
await Promise.all([result, back]);
await assert.rejects(fixed.connected(), Unauthorized);
assert.equal(await renewed.cancel(job.id), true);
assert.equal((await mine.next()).value.status, "cancelled");
assert.deepEqual(tokens, []);
renewed.close();
