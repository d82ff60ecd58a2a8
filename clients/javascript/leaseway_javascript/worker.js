/**
 * The worker: claims items, runs a handler for each, reports how it ended.
 *
 * Owns the handlers and the way to a clean stop. What is said to the server is decided in `worker-state.js`; sockets
 * are `link.js`'s; handlers in Web Workers are `web-worker.js`'s.
 */

import { Door } from "./door.js";
import { LeaseLost } from "./errors.js";
import { Link } from "./link.js";
import { releaseOf, resultOf, thrownOf } from "./outcome.js";
import { outsideOf } from "./outside.js";
import { Pending } from "./pending.js";
import { WorkerState } from "./worker-state.js";

/** @typedef {import("./leases.js").Lease} Lease */

/** Milliseconds that the server has for its last answers when a worker stops. */
const LAST_ANSWERS = 5_000;

/** An attempt at an item, as its handler sees it. */
export class Attempt {
  /**
   * Aborted when the item is ours no more (cancelled, expired, lapsed) or the worker stops: the work is of no use.
   *
   * @type {AbortSignal}
   */
  signal;
  #lease;
  #progress;

  /**
   * Made by `Worker`.
   *
   * @param {Lease} lease
   * @param {AbortSignal} signal
   * @param {(lease: Lease, value: any) => Promise<void>} progress
   */
  constructor(lease, signal, progress) {
    this.signal = signal;
    this.#lease = lease;
    this.#progress = progress;
  }

  /** The item's id. */
  get id() {
    return this.#lease.id;
  }

  /** How many times the item was claimed, this attempt included. */
  get attempts() {
    return this.#lease.attempts;
  }

  /** The last progress record of the attempt before: what to go on from, or null. @returns {any} */
  get checkpoint() {
    return this.#lease.checkpoint;
  }

  /** What the producer sent along, or null. @returns {any} */
  get meta() {
    return this.#lease.meta;
  }

  /**
   * Posts a progress record; resolves when the server has stored it, over reconnects too.
   *
   * Rejects with `Rejected` where the schema refuses it, and with `LeaseLost`. Nobody has to wait for it: one that was
   * not stored is then simply missing.
   *
   * @param {any} value
   * @returns {Promise<void>}
   */
  progress(value) {
    const stored = this.#progress(this.#lease, value);
    stored.catch(() => {}); // Unheard, it would end a process of Node, and with it all other attempts.
    return stored;
  }
}

/**
 * What the worker does: the item in, the result out. `Permanent` ends the item as failed, `Release` gives it back, any
 * other error is a fault that the queue retries.
 *
 * @typedef {(item: any, job: Attempt) => any} Handler
 */

/**
 * @typedef {object} WorkOptions
 * @property {Handler} handler
 * @property {Record<string, any>} [criteria]  which items it takes (PROTOCOL.md §4); all, where there are none
 * @property {number} [concurrency]  how many handlers may run at once; else 1
 * @property {string} [name]  something of its own is added to it: what resumes a lease must be what claimed it
 * @property {Record<string, any>} [labels]  told to who looks at the queue's workers
 */

/** @typedef {WorkOptions & import("./door.js").Credentials & Partial<import("./outside.js").Outside>} WorkerOptions */

/** @typedef {{lease: Lease, abort: AbortController}} Running */

/**
 * Works on the items of one queue from its making until `stop`.
 *
 *     const worker = new Worker("wss://task.example.com/resize", {
 *       getToken,
 *       criteria: { format: ["jpg", "png"] },
 *       concurrency: 2,
 *       handler: async (item, job) => {
 *         await job.progress({ percent: 40 });
 *         return { image: await resize(item, job.signal) };
 *       },
 *     });
 *
 * A lost connection is no error: the worker reconnects for ever, resumes its leases and says again what had no answer.
 * It renews its leases by itself, which a handler that blocks this thread for too long would prevent: `hostInWebWorker`
 * runs one elsewhere.
 *
 * It is an `EventTarget`. `online` and `offline` (with `error`, `retryInMs`) tell of the connection; `start` (with
 * `job`) and `end` (with `id`, `attempts`, `verb`: how it was reported, `error`: null, or why that did not count) of
 * each attempt; `refused` (with `error`) that no reconnect can mend it.
 *
 * Throws a `TypeError` for what is no queue's address, no credential or no option, `Rejected` for criteria that are no
 * JSON.
 */
export class Worker extends EventTarget {
  /** Its name, with what was added. @type {string} */
  name;
  /**
   * Resolves when the worker has stopped. Rejects with `Unauthorized`, `Forbidden` or `NoSuchQueue`, and with
   * `Rejected` where the server does not take the criteria.
   *
   * @type {Promise<void>}
   */
  stopped;
  #handler;
  #state;
  #link;
  #outside;
  /** @type {Map<Lease, Running>} */
  #running = new Map();
  /** @type {Pending<void>} */
  #answers = new Pending();
  /** @type {(error?: Error) => void} */
  #over = () => {};
  #isOver = false;
  /** Who waits until nothing runs and all is answered. @type {Set<() => void>} */
  #waiting = new Set();

  /** @param {string | URL} url  as of `Queue` @param {WorkerOptions} options */
  constructor(url, options) {
    super();
    const { handler, criteria, concurrency = 1, name = "javascript", labels } = options;
    if (typeof handler !== "function") throw new TypeError("a worker needs a handler: a function of an item");
    if (!(Number.isInteger(concurrency) && concurrency >= 1))
      throw new TypeError("concurrency is an integer from 1 on");
    this.name = ownName(name);
    this.#handler = handler;
    this.#state = new WorkerState(this.name, concurrency, {
      ...(criteria && { criteria }),
      ...(labels && { labels }),
    });
    this.#outside = outsideOf(options);
    this.stopped = new Promise((resolve, reject) => {
      this.#over = (error) => (error ? reject(error) : resolve());
    });
    this.stopped.catch(() => {}); // Nobody has to look at it: `refused` tells it too.
    this.#link = new Link(new Door(url, options, this.#outside), "work", this.#state, this.#outside, {
      deliver: (events) => this.#deliver(events),
      online: () => this.#dispatch("online", {}),
      offline: (error, retryInMs) => this.#dispatch("offline", { error, retryInMs }),
      refused: (error) => this.#refused(error),
    });
    this.#link.start();
  }

  /**
   * Stops in order: withdraws its claims, lets handlers go on for `graceMs`, aborts and gives back what is left,
   * closes. The server charges no loss for it. Resolves, or rejects, as `stopped` does.
   *
   * @param {{graceMs?: number}} [more]
   * @returns {Promise<void>}
   */
  async stop({ graceMs = 30_000 } = {}) {
    this.#state.drain();
    this.#link.wake();
    await this.#untilQuiet(graceMs);
    for (const running of [...this.#running.values()]) this.#giveBack(running);
    await this.#untilQuiet(LAST_ANSWERS);
    this.#end();
    return this.stopped;
  }

  // Events

  /** @param {import("./worker-state.js").WorkerEvent[]} events */
  #deliver(events) {
    for (const event of events) {
      if (event.type === "start") this.#start(event.lease);
      else if (event.type === "stop") this.#stopOne(event.lease, event.reason);
      else if (event.type === "answered") this.#answer(event.ref, event.error);
      else this.#tellEnd(event.lease, event.verb, event.error);
    }
    if (this.#state.quiet) this.#quiet();
  }

  /** @param {number} ref @param {Error | null} error */
  #answer(ref, error) {
    if (error) this.#answers.reject(ref, error);
    else this.#answers.resolve(ref, undefined);
  }

  /** @param {Lease} lease @param {string} reason */
  #stopOne(lease, reason) {
    const error = new LeaseLost(`${lease.id}: ${reason}`);
    this.#running.get(lease)?.abort.abort(error);
    this.#tellEnd(lease, reason, error);
  }

  /** @param {Lease} lease @param {string} verb @param {Error | null} error */
  #tellEnd({ id, attempts }, verb, error) {
    this.#dispatch("end", { id, attempts, verb, error });
  }

  // Handlers

  /** @param {Lease} lease */
  #start(lease) {
    const running = { lease, abort: new AbortController() };
    const job = new Attempt(lease, running.abort.signal, (...said) => this.#progress(...said));
    this.#running.set(lease, running);
    this.#dispatch("start", { job });
    void this.#attempt(running, job);
  }

  /** @param {Running} running @param {Attempt} job */
  async #attempt(running, job) {
    let outcome;
    try {
      outcome = resultOf(await this.#handler(running.lease.item, job));
    } catch (thrown) {
      outcome = thrownOf(thrown);
    }
    this.#settle(running, outcome);
  }

  /** Ends an attempt, unless it has ended. @param {Running} running @param {import("./outcome.js").Outcome} outcome */
  #settle({ lease }, outcome) {
    if (!this.#running.delete(lease)) return;
    this.#state.settle(lease, outcome, this.#outside.clock.now());
    this.#link.wake();
    if (this.#state.quiet) this.#quiet();
  }

  /** Its handler had its time; whatever it still does is of no use. @param {Running} running */
  #giveBack(running) {
    this.#settle(running, releaseOf());
    running.abort.abort(new LeaseLost("the worker stops"));
  }

  /** @param {Lease} lease @param {any} value */
  async #progress(lease, value) {
    const answer = this.#answers.wait(this.#state.progress(lease, value));
    this.#link.wake();
    await answer;
  }

  // The end

  /** @param {number} ms  at most @returns {Promise<void>} */
  #untilQuiet(ms) {
    return new Promise((resolve) => {
      if (this.#isOver || this.#state.quiet) return resolve();
      const over = () => {
        this.#outside.clock.clearTimeout(timer);
        this.#waiting.delete(over);
        resolve();
      };
      const timer = this.#outside.clock.setTimeout(over, ms);
      this.#waiting.add(over);
    });
  }

  #quiet() {
    for (const over of this.#waiting) over();
  }

  /** @param {import("./errors.js").LeasewayError} error */
  #refused(error) {
    this.#end(error);
    this.#dispatch("refused", { error });
  }

  /** @param {Error} [error] */
  #end(error) {
    this.#isOver = true;
    this.#link.close();
    const gone = new LeaseLost("the worker has stopped");
    for (const { abort } of this.#running.values()) abort.abort(gone);
    this.#answers.rejectAll(gone);
    this.#quiet();
    this.#over(error);
  }

  /** @param {string} kind @param {Record<string, any>} members */
  #dispatch(kind, members) {
    this.dispatchEvent(Object.assign(new Event(kind), members));
  }
}

/** A name that no other instance uses (§4). @param {string} name */
function ownName(name) {
  if (!/^[^\p{Cc}\u2028\u2029]{1,150}$/u.test(name))
    throw new TypeError("a worker's name is 1 to 150 printable characters");
  const own = crypto.getRandomValues(new Uint8Array(4));
  return `${name}-${[...own].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
