/** A handler in a Web Worker, outside of a browser: deno run hosted.js. Ends well or tells what is wrong. */

import assert from "node:assert/strict";
import process from "node:process";

import { hostInWebWorker } from "../../clients/javascript/leaseway_javascript/index.js";

const MODULE = new URL("./hosted-handler.js", import.meta.url);
const hosted = hostInWebWorker(MODULE);
const said = [];
const pixels = new Uint8Array([1, 2, 3, 250]).buffer;
const answer = hosted({ do: "sum", pixels }, { progress: async (value) => void said.push(value) });
assert.equal(pixels.byteLength, 0, "transferred, and not copied");
const { sum, pixels: back } = await answer;
assert.deepEqual([sum, back.byteLength, said], [256, 4, [{ percent: 50 }]]);
await assert.rejects(hosted({ do: "refuse" }), { name: "Permanent", message: "never" });
await assert.rejects(hosted({ do: "crash" }), { name: "HandlerCrashed", message: /boom/ });
const leave = new AbortController();
const left = assert.rejects(hosted({ do: "wait" }, { signal: leave.signal }), { name: "AbortError" });
leave.abort();
await left;
hosted.close();
await assert.rejects(hostInWebWorker(MODULE, { hangMs: 300 })({ do: "hang" }), { name: "HandlerHung" });
process.exit(); // Deno lets a Web Worker in an endless loop run on, and would wait for it.
