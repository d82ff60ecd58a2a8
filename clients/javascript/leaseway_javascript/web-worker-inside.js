/**
 * What runs inside of a Web Worker of `hostInWebWorker`: it loads the handler's module, calls it, tells how it ended.
 *
 * Plumbing and nothing else. It answers a question whenever the handler lets it, which is how the outside sees a hang.
 */

import { LeaseLost, Permanent, Release } from "./errors.js";
import { Pending } from "./pending.js";
import { TAG, buffersIn } from "./web-worker.js";

/** @type {Pending<void>} */
const answers = new Pending();
let refs = 0;
/** Which attempt runs. What an earlier one left behind may still want to tell. */
let runs = 0;

// A handler that sets `onmessage`, or posts messages of its own, does not meet ours.
self.addEventListener("message", ({ data }) => {
  const said = data?.[TAG];
  if (!said) return;
  if ("run" in said) void run(said.run);
  else if ("answered" in said) answered(said.answered);
  else tell({ alive: true });
});

/** @param {{module: string, item: any, facts: Record<string, any>}} said */
async function run({ module, item, facts }) {
  const own = ++runs;
  const handler = await load(module);
  if (!handler) return;
  try {
    const progress = (/** @type {any} */ value) => progressOf(own, value);
    tell({ ended: await handler(item, { ...facts, progress }) });
  } catch (thrown) {
    tellThrown(thrown);
  }
}

/** A module that could not be loaded never can be in this Web Worker: browsers remember. @param {string} module */
async function load(module) {
  try {
    const loaded = await import(module);
    const handler = loaded.handler ?? loaded.default;
    if (typeof handler === "function") return handler;
    tellThrown(new Permanent(`${module} exports no handler`));
  } catch (thrown) {
    tellThrown(thrown, true);
  }
  return null;
}

/** @param {number} own  the attempt that says so @param {any} value @returns {Promise<void>} */
async function progressOf(own, value) {
  if (own !== runs) throw new LeaseLost("this attempt has ended");
  const ref = ++refs;
  const answer = answers.wait(ref);
  tell({ progress: { ref, value } });
  return answer;
}

/** @param {any} thrown  its members may be such as cannot be told @param {boolean} [spent] */
function tellThrown(thrown, spent = false) {
  try {
    tell({ thrown: told(thrown), spent });
  } catch {
    tell({ thrown: { name: "Error", message: "what the handler threw cannot be told" }, spent });
  }
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
  self.postMessage({ [TAG]: message }, { transfer: buffersIn(message) });
}
