/**
 * What runs inside of a Web Worker of `hostInWebWorker`: it loads the handler's module, calls it, tells how it ended.
 *
 * Plumbing and nothing else. It answers a question whenever the handler lets it, which is how the outside sees a hang.
 */

import { Permanent, Release } from "./errors.js";
import { Pending } from "./pending.js";
import { buffersIn } from "./web-worker.js";

/** @type {Pending<void>} */
const answers = new Pending();
let refs = 0;

self.onmessage = ({ data }) => {
  if ("run" in data) void run(data.run);
  else if ("answered" in data) answered(data.answered);
  else tell({ alive: true });
};

/** @param {{module: string, item: any, facts: Record<string, any>}} said */
async function run({ module, item, facts }) {
  try {
    const loaded = await import(module);
    const handler = loaded.handler ?? loaded.default;
    if (typeof handler !== "function") throw new Permanent(`${module} exports no handler`);
    tell({ ended: await handler(item, { ...facts, progress }) });
  } catch (thrown) {
    tell({ thrown: told(thrown) });
  }
}

/** @param {any} value @returns {Promise<void>} */
function progress(value) {
  const ref = ++refs;
  const answer = answers.wait(ref);
  tell({ progress: { ref, value } });
  return answer;
}

/** @param {{ref: number, error?: {name: string, message: string}}} said */
function answered({ ref, error }) {
  if (error) answers.reject(ref, Object.assign(new Error(error.message), { name: error.name }));
  else answers.resolve(ref, undefined);
}

/** Errors lose their class and their members on the way: what matters of them is said. @param {any} thrown */
function told(thrown) {
  if (thrown instanceof Permanent) {
    return { kind: "Permanent", message: thrown.message, code: thrown.code, detail: thrown.detail };
  }
  if (thrown instanceof Release) return { kind: "Release", delayMs: thrown.delayMs };
  return { name: thrown?.name ?? typeof thrown, message: String(thrown?.message ?? thrown) };
}

/** @param {any} message */
function tell(message) {
  self.postMessage(message, { transfer: buffersIn(message) });
}
