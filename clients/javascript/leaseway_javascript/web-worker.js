/**
 * Handlers in Web Workers: the page, and the connection with its renewals, stay out of the way of the work.
 *
 * Owns the Web Workers and what ends them: a crash, a hang, an abort. Inside of one runs `web-worker-inside.js`.
 */

import { HandlerCrashed, HandlerHung, HandlerLost, Permanent, Release } from "./errors.js";
import { CLOCK } from "./outside.js";

/**
 * @typedef {object} HostOptions
 * @property {number} [hangMs]  a Web Worker that gives no sign for so long is ended: as long as a handler may compute
 *     without an `await` that lets others run; else 60,000
 * @property {() => globalThis.Worker} [newWorker]  makes the Web Worker that runs `web-worker-inside.js`, where a
 *     bundler wants that written out
 * @property {import("./outside.js").Clock} [clock]
 */

/**
 * What a handler in a Web Worker is given of its attempt, where there is one.
 *
 * @typedef {object} Outer
 * @property {string} [id]
 * @property {number} [attempts]
 * @property {any} [checkpoint]
 * @property {any} [meta]
 * @property {AbortSignal} [signal]
 * @property {(value: any) => Promise<void>} [progress]
 */

/** @typedef {((item: any, job?: Outer) => Promise<any>) & {close: () => void}} Hosted */

const FACTS = /** @type {const} */ (["id", "attempts", "checkpoint", "meta"]);
/** A timer that is so late, milliseconds, says that the machine slept, and the Web Worker with it. */
const LATE = 5_000;
/** Around all that both sides say to each other: a handler, or a library in it, may post messages of its own. */
export const TAG = "leaseway";

/**
 * A handler that runs in a Web Worker: the module's export `handler`, or its default.
 *
 *     const analyse = hostInWebWorker("./analyse.js");
 *     const worker = new Worker(url, { handler: analyse });
 *
 * It can also be called by itself, or by a handler that prepares the item first: `await analyse({ pixels }, job)`.
 *
 * Each attempt has a Web Worker for itself; as many are kept as ever ran at once. `ArrayBuffer`s in the item and in the
 * result, at any depth, are transferred and not copied: the sender's are empty then. The handler gets `(item, job)`,
 * where `job` has `id`, `attempts`, `checkpoint`, `meta` and `progress`.
 *
 * It rejects with what the handler throws; with `HandlerCrashed` after an error in the Web Worker that nobody caught;
 * with `HandlerHung` where it gave no sign for `hangMs`; and with the signal's reason once `job.signal` is aborted, for
 * which the Web Worker is ended on the spot. As a worker's handler, all but `Permanent` and `Release` are faults that
 * the queue retries. `close` ends all of its Web Workers.
 *
 * @param {string | URL} moduleUrl  of the page's own origin; a relative one is the page's
 * @param {HostOptions} [options]
 * @returns {Hosted}
 */
export function hostInWebWorker(moduleUrl, options = {}) {
  const host = new Host(new URL(moduleUrl, globalThis.location?.href).href, options);
  const hosted = (/** @type {any} */ item, /** @type {Outer} */ job = {}) => host.run(item, job);
  return Object.assign(hosted, { close: () => host.close() });
}

function insideWorker() {
  return new globalThis.Worker(new URL("./web-worker-inside.js", import.meta.url), { type: "module" });
}

/** All Web Workers of one handler. */
class Host {
  #module;
  #newWorker;
  #hangMs;
  #clock;
  /** Whose Web Workers wait for another attempt. @type {Stay[]} */
  #idle = [];
  /** @type {Set<Stay>} */
  #stays = new Set();

  /** @param {string} module @param {HostOptions} options */
  constructor(module, { hangMs = 60_000, newWorker = insideWorker, clock = CLOCK }) {
    this.#module = module;
    this.#hangMs = hangMs;
    this.#newWorker = newWorker;
    this.#clock = clock;
  }

  /** @param {any} item @param {Outer} job */
  async run(item, job) {
    job.signal?.throwIfAborted();
    const stay = new Stay(this.#take(), job, this.#hangMs, this.#clock);
    this.#stays.add(stay);
    try {
      return await stay.run(this.#module, item);
    } finally {
      this.#stays.delete(stay);
      if (stay.alive) this.#idle.push(stay);
    }
  }

  /** A Web Worker that nobody uses. One may have crashed by what an attempt left behind. */
  #take() {
    for (let last = this.#idle.pop(); last; last = this.#idle.pop()) if (last.alive) return last.worker;
    return this.#newWorker();
  }

  close() {
    for (const stay of [...this.#stays, ...this.#idle.splice(0)]) stay.fail(new HandlerLost("the handler was closed"));
  }
}

/** One attempt in one Web Worker. */
class Stay {
  /** Whether the Web Worker is good for another one. */
  alive = true;
  worker;
  #job;
  #hangMs;
  #clock;
  /** @type {any} */
  #timer = null;
  #asked = false;
  /** @type {(value: any) => void} */
  #resolve = () => {};
  /** @type {(error: unknown) => void} */
  #reject = () => {};

  /**
   * @param {globalThis.Worker} worker
   * @param {Outer} job
   * @param {number} hangMs
   * @param {import("./outside.js").Clock} clock
   */
  constructor(worker, job, hangMs, clock) {
    this.worker = worker;
    this.#job = job;
    this.#hangMs = hangMs;
    this.#clock = clock;
  }

  /** @param {string} module @param {any} item */
  async run(module, item) {
    const aborted = () => this.fail(this.#job.signal?.reason);
    this.#job.signal?.addEventListener("abort", aborted);
    try {
      return await new Promise((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#listen();
        const facts = Object.fromEntries(FACTS.map((name) => [name, this.#job[name]]));
        this.#tell({ run: { module, item, facts } }, buffersIn(item));
        this.#arm();
      });
    } finally {
      this.worker.onmessage = null; // What the handler left behind has nothing to say any more.
      this.#clock.clearTimeout(this.#timer);
      this.#job.signal?.removeEventListener("abort", aborted);
    }
  }

  /** Ends the Web Worker, and with it the attempt. @param {unknown} error */
  fail(error) {
    this.alive = false;
    this.worker.terminate();
    this.#reject(error);
  }

  /** @param {any} message @param {Transferable[]} [transfer] */
  #tell(message, transfer = []) {
    this.worker.postMessage({ [TAG]: message }, transfer);
  }

  #listen() {
    this.worker.onmessage = (event) => {
      if (event.data?.[TAG]) this.#hear(event.data[TAG]);
    };
    this.worker.onmessageerror = () => this.fail(new HandlerCrashed("what the Web Worker said cannot be read"));
    this.worker.onerror = (event) => {
      event.preventDefault?.(); // It is told here; the page has nothing to do with it.
      this.fail(new HandlerCrashed(event.message || "the Web Worker cannot be started"));
    };
  }

  /** @param {any} said */
  #hear(said) {
    this.#arm();
    if ("ended" in said) this.#resolve(said.ended);
    else if (said.spent) this.fail(revived(said.thrown));
    else if ("thrown" in said) this.#reject(revived(said.thrown));
    else if ("progress" in said) void this.#progress(said.progress);
  }

  /** @param {{ref: number, value: any}} said */
  async #progress({ ref, value }) {
    try {
      await this.#job.progress?.(value);
      this.#tell({ answered: { ref } });
    } catch (error) {
      const { name, message } = /** @type {Error} */ (error);
      this.#tell({ answered: { ref, error: { name, message } } });
    }
  }

  /** It gave a sign, or has another chance to: half of the time is for silence, half for the answer to a question. */
  #arm() {
    this.#asked = false;
    this.#wait();
  }

  #wait() {
    this.#clock.clearTimeout(this.#timer);
    const due = this.#clock.wall() + this.#hangMs / 2;
    this.#timer = this.#clock.setTimeout(() => this.#ring(this.#clock.wall() - due), this.#hangMs / 2);
  }

  /** @param {number} late */
  #ring(late) {
    if (this.#asked && late <= LATE) {
      this.fail(new HandlerHung(`the Web Worker gave no sign for ${this.#hangMs} ms`));
      return;
    }
    this.#asked = true;
    this.#tell({ ask: true });
    this.#wait();
  }
}

/**
 * The buffers in a value, at any depth, each once. Views stand for theirs.
 *
 * @param {any} value
 * @returns {ArrayBuffer[]}
 */
export function buffersIn(value) {
  const seen = new Set();
  /** @type {Set<ArrayBuffer>} */
  const found = new Set();
  const open = [value];
  while (open.length) {
    const one = open.pop();
    if (one === null || typeof one !== "object" || seen.has(one)) continue;
    seen.add(one);
    if (one instanceof ArrayBuffer) found.add(one);
    else if (ArrayBuffer.isView(one)) open.push(one.buffer);
    else for (const member of membersOf(one)) open.push(member);
  }
  return [...found];
}

/** @param {object} value @returns {Iterable<any>} */
function membersOf(value) {
  if (value instanceof Map) return [...value.keys(), ...value.values()];
  return value instanceof Set ? value : Object.values(value);
}

/** What the handler threw, as it would have been thrown here. @param {any} thrown */
function revived(thrown) {
  if (thrown.kind === "Permanent") return new Permanent(thrown.message, thrown);
  if (thrown.kind === "Release") return new Release(thrown.delayMs);
  const error = new Error(thrown.message);
  error.name = thrown.name;
  return error;
}
