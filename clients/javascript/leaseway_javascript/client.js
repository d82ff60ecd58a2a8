/**
 * The producer's side: posts items, watches them, waits for their results, asks what a queue knows.
 *
 * Owns who waits for the answer of which message. What is said to the server is decided in `watch-state.js` and
 * `feed-state.js`, what one item's producer sees is `job.js`'s, sockets are `link.js`'s.
 */

import { Door } from "./door.js";
import { ConnectionLost, Forbidden, PostUnknown, SocketsBlocked, UnknownItem } from "./errors.js";
import { Feed } from "./feed.js";
import { FeedState } from "./feed-state.js";
import { Following } from "./following.js";
import { Job } from "./job.js";
import { Link } from "./link.js";
import { Newest } from "./newest.js";
import { outsideOf } from "./outside.js";
import { Pending } from "./pending.js";
import { bodyOf } from "./post-body.js";
import { checkId } from "./protocol.js";
import { tellingOf } from "./telling.js";
import { WatchState } from "./watch-state.js";

export { Job };

/** @typedef {import("./post-body.js").PostOptions} PostOptions */
/** @typedef {import("./protocol.js").View} View */
/** @typedef {import("./watch-state.js").Watched} Watched */

/**
 * The queue's figures (§3).
 *
 * @typedef {object} Stats
 * @property {string} queue
 * @property {Record<string, number>} counts  by status
 * @property {number} workers
 * @property {Record<string, number>} rates  of the newest minute
 */

/** @typedef {import("./door.js").Credentials & Partial<import("./outside.js").Outside>} SiteOptions */
/** @typedef {SiteOptions & import("./telling.js").Telling} QueueOptions */

const CLOSED = "the queue was closed here";
const UNKNOWN = "it may be in the queue or not (a post with a key can be posted again)";
const BLOCKED =
  "the server answers over HTTP, and no WebSocket comes about: a proxy in between seems to block it. " +
  'Over HTTP one can go on: queue.ask("POST", "items", {body: {item}}), then queue.ask("GET", `items/${id}`, ' +
  '{query: {waitMs: "60000"}})';

/**
 * One queue: posts to it, and watches what becomes of its items, over one monitor socket, which is opened when it is
 * first needed.
 *
 *     const queue = new Queue("wss://task.example.com/resize", { getToken });
 *     const job = await queue.post({ image, width: 64 });
 *     for await (const view of job) console.log(view.status, view.progress);
 *     const result = await job.result;
 *
 * A lost connection is no error: it comes back by itself, for ever, and subscribes anew; no end is missed and none is
 * told twice. Who does not want to wait for ever passes a `signal`, such as `AbortSignal.timeout(60_000)`.
 *
 * It is an `EventTarget`. `online` says that the connection stands; `offline` (with `error`, `retryInMs`) that it is
 * away for now; `refused` (with `error`) that no reconnect can mend it: everything that waits rejects with that error,
 * and a new `Queue` is needed; `view` (with `view`) that there is a newer state of an item that somebody watches here.
 *
 * Throws a `TypeError` for what is no queue's address, no credential or no pace, or where there is no WebSocket.
 */
export class Queue extends EventTarget {
  #door;
  #outside;
  #telling;
  #state;
  #link;
  #following;
  /** @type {Pending<Job>} */
  #posts = new Pending();
  /** @type {Pending<import("./protocol.js").Message>} */
  #cancels = new Pending();
  /** @type {Set<Newest<Stats>>} */
  #statsReaders = new Set();
  /** @type {Set<Feed>} */
  #feeds = new Set();
  /** Why nothing can be waited for any more. @type {Error | null} */
  #over = null;
  /** Aborted when that is so. */
  #ended = new AbortController();
  #behind;

  /**
   * @param {string | URL} url  `wss://host/queue`, or the same with `ws`, `https` or `http`; in a page also `/queue`
   * @param {QueueOptions} [options]  what lets us in, how to be told, and for tests the WebSocket, fetch, clock, random
   */
  constructor(url, options = {}) {
    super();
    this.#outside = outsideOf(options);
    this.#state = new WatchState((this.#telling = tellingOf(options)));
    this.#door = new Door(url, options, this.#outside);
    this.#link = new Link(this.#door, "monitor", this.#state, this.#outside, {
      deliver: (events) => this.#deliver(events),
      online: () => this.#dispatch("online", {}),
      offline: (error, retryInMs) => this.#dispatch("offline", { error, retryInMs }),
      refused: (error) => this.#refused(error),
    });
    const { clock } = this.#outside;
    this.#following = new Following(
      this.#state,
      () => this.#link.wake(),
      () => clock.now(),
    );
    this.#behind = { following: this.#following, cancel: (/** @type {string} */ id) => this.cancel(id) };
  }

  /** The queue's name. */
  get name() {
    return this.#door.queue;
  }

  /** Whether the connection stands now. */
  get online() {
    return this.#state.online;
  }

  /**
   * Connects, and resolves when the connection stands.
   *
   * Rejects with `Unauthorized`, `Forbidden`, `NoSuchQueue`, and `ConnectionLost` where none came about in time. Where
   * a proxy seems to block WebSockets, that is `SocketsBlocked`, which says how to go on.
   *
   * @param {{timeoutMs?: number}} [more]
   * @returns {Promise<void>}
   */
  async connected({ timeoutMs = 30_000 } = {}) {
    this.#connect();
    if (this.#state.online) return;
    const heard = new AbortController();
    try {
      await new Promise((resolve, reject) => {
        const { signal } = heard;
        this.addEventListener("online", resolve, { signal });
        this.#ended.signal.addEventListener("abort", () => reject(this.#over), { signal });
        const timer = this.#outside.clock.setTimeout(() => resolve(undefined), timeoutMs);
        signal.addEventListener("abort", () => this.#outside.clock.clearTimeout(timer));
      });
    } finally {
      heard.abort();
    }
    if (!this.#state.online) throw await this.#hindrance(timeoutMs);
  }

  /**
   * Posts an item; when it resolves, the server has committed it.
   *
   * Rejects with `Rejected` where the server refuses it. `PostUnknown` says that it was sent and that no answer came
   * before the connection dropped, the time was over or the signal was aborted: it may be in the queue or not. Where it
   * was never sent, it rejects with the signal's reason, a `TimeoutError` after `timeoutMs`: it is not in the queue.
   *
   * A post with a `key` is said again by itself where the connection dropped, until the time is over, and can be posted
   * again after a `PostUnknown`: it is in the queue once.
   *
   * @param {any} item
   * @param {PostOptions & {signal?: AbortSignal, timeoutMs?: number}} [options]
   * @returns {Promise<Job>}
   */
  async post(item, { signal, timeoutMs = 30_000, ...options } = {}) {
    this.#connect();
    signal?.throwIfAborted();
    const ref = this.#state.post(bodyOf(item, options));
    const answer = this.#posts.wait(ref);
    const giveUp = (/** @type {unknown} */ reason) => this.#posts.reject(ref, this.#unanswered(ref, reason));
    const aborted = () => giveUp(signal?.reason);
    const overdue = () => giveUp(new DOMException(`not sent within ${timeoutMs} ms`, "TimeoutError"));
    const timer = this.#outside.clock.setTimeout(overdue, timeoutMs);
    signal?.addEventListener("abort", aborted);
    this.#link.wake();
    try {
      return await answer;
    } finally {
      this.#outside.clock.clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
    }
  }

  /** An item that was posted before, perhaps elsewhere. Throws a `TypeError` for what is no id. @param {string} id */
  job(id) {
    return new Job(this.#state.item(id), this.#behind, false);
  }

  /**
   * The states of items, each at once and again when it changed.
   *
   * Of ids, until all have ended. `"mine"` are all that this token's user has open, all that ended and was not fetched
   * yet, and all that it posts from now on, so it goes on for ever; after the page was loaded anew it is the way to
   * what was posted before. `"all"` (for an administrator) are all that is open, and every change from now on; it tells
   * the ends that fall into a gap of the connection for up to 10,000 open items.
   *
   * A slow reader sees the newest state of each and not every one between, but always the end, once. A loop over
   * `"mine"` or `"all"` has a connection of its own, until it is left.
   *
   * The loop throws `UnknownItem` for an id that the server does not know (any more), the signal's reason, and
   * `ConnectionLost` where the queue is closed.
   *
   * @param {Iterable<string> | "mine" | "all"} what
   * @param {{signal?: AbortSignal}} [more]
   * @returns {AsyncGenerator<View, void, void>}
   */
  watch(what, { signal } = {}) {
    if (typeof what === "string") return this.#feed(feedName(what), signal);
    const items = [...new Set(what)].map((id) => this.#state.item(id));
    this.#connect();
    return this.#following.follow(items, signal);
  }

  /**
   * The queue's figures, at once and then at most twice a second while they change.
   *
   * The loop throws `Forbidden` where each sees only its own items and this token is no administrator's.
   *
   * @param {{signal?: AbortSignal}} [more]
   * @returns {AsyncGenerator<Stats, void, void>}
   */
  async *stats({ signal } = {}) {
    this.#connect();
    /** @type {Newest<Stats>} */
    const reader = new Newest();
    this.#statsReaders.add(reader);
    this.#showStats();
    try {
      for (;;) yield await reader.next(signal);
    } finally {
      this.#statsReaders.delete(reader);
      this.#showStats();
    }
  }

  /**
   * Withdraws an item; see `Job.cancel`.
   *
   * @param {string} id
   * @returns {Promise<boolean>}
   */
  async cancel(id) {
    this.#connect();
    const ref = this.#state.cancel(checkId(id));
    const answer = this.#cancels.wait(ref);
    this.#link.wake();
    const { accepted, reason } = await answer;
    if (reason === "unknown") throw new UnknownItem(`the server does not know the item ${id}`);
    if (reason === "not-allowed") throw new Forbidden(`${id} was posted by somebody else`);
    return accepted;
  }

  /**
   * A request over HTTP for all that is asked rarely (PROTOCOL.md §5): `queue.ask("GET", "items", {query: {status:
   * "dead"}})`, `queue.ask("POST", "pause")`. Gives the answer's JSON, or null where it has none.
   *
   * Rejects with `ConnectionLost`, `Unauthorized`, `Forbidden`, `NoSuchQueue`, `UnknownItem`, `Rejected` (`conflict`
   * among others), and with the signal's reason.
   *
   * @param {string} method
   * @param {string} path  after the queue's own; empty for the queue itself; with a slash before it the server's
   * @param {{query?: Record<string, string | string[]>, body?: any, signal?: AbortSignal}} [more]
   * @returns {Promise<any>}
   */
  ask(method, path, more) {
    return this.#door.ask(method, path, more);
  }

  /** Closes the connection; who still waits gets a `ConnectionLost`. */
  close() {
    this.#end(new ConnectionLost(CLOSED));
  }

  // The connection

  #connect() {
    if (this.#over) throw this.#over;
    this.#link.start();
  }

  /** @param {number} timeoutMs */
  async #hindrance(timeoutMs) {
    const why = this.#link.trouble?.message ?? "no answer";
    const within = `no connection within ${timeoutMs} ms`;
    const blocked = this.#link.dialled && (await this.#door.answers());
    return blocked ? new SocketsBlocked(`${within}: ${BLOCKED}`) : new ConnectionLost(`${within}: ${why}`);
  }

  /** @param {import("./errors.js").LeasewayError} error */
  #refused(error) {
    this.#end(error);
    this.#dispatch("refused", { error });
  }

  /** @param {Error} error */
  #end(error) {
    this.#over ??= error;
    this.#ended.abort();
    this.#link.close();
    for (const feed of this.#feeds) feed.end(error);
    this.#following.end(error);
    this.#posts.rejectAll(error);
    this.#cancels.rejectAll(error);
    for (const reader of this.#statsReaders) reader.fail(error);
  }

  /** @param {import("./watch-state.js").WatchEvent[]} events */
  #deliver(events) {
    for (const event of events) this.#on(event);
  }

  /** @param {import("./watch-state.js").WatchEvent} event */
  #on(event) {
    switch (event.type) {
      case "changed":
        this.#following.changed(event.watched);
        return this.#dispatch("view", { view: event.watched.view });
      case "not-watched":
        return this.#following.fail(event.watched, event.error ?? unknown(event.watched));
      case "posted":
        return this.#posts.resolve(event.ref, new Job(event.watched, this.#behind, event.duplicate));
      case "post-refused":
        return this.#posts.reject(event.ref, event.error);
      case "post-lost":
        return this.#posts.reject(event.ref, new PostUnknown(`the connection was lost before the answer: ${UNKNOWN}`));
      case "cancelled":
        return this.#cancels.resolve(event.ref, event.ack);
      case "cancel-refused":
        return this.#cancels.reject(
          event.ref,
          event.error.code === "not-allowed" ? forbidden(event.error) : event.error,
        );
      case "stats":
        for (const reader of this.#statsReaders) reader.put("stats", /** @type {any} */ (event.stats));
        return undefined;
      case "stats-refused":
        for (const reader of this.#statsReaders) reader.fail(forbidden(event.error));
        return undefined;
    }
  }

  // The parts

  /** @param {number} ref @param {unknown} reason */
  #unanswered(ref, reason) {
    if (this.#state.forgetPost(ref)) return reason;
    return new PostUnknown(`no answer came: ${UNKNOWN}`, { cause: reason });
  }

  #showStats() {
    this.#state.showStats(this.#statsReaders.size > 0);
    this.#link.wake();
  }

  /** @param {"mine" | "all"} name @param {AbortSignal} [signal] */
  async *#feed(name, signal) {
    if (this.#over) throw this.#over;
    const state = new FeedState(name, this.#telling);
    const feed = new Feed(state, this.#door, this.#outside, (view) => this.#dispatch("view", { view }));
    this.#feeds.add(feed);
    try {
      yield* feed.read(signal);
    } finally {
      this.#feeds.delete(feed);
    }
  }

  /** @param {string} kind @param {Record<string, any>} members */
  #dispatch(kind, members) {
    this.dispatchEvent(Object.assign(new Event(kind), members));
  }
}

/** @param {string} name */
function feedName(name) {
  if (name !== "mine" && name !== "all") throw new TypeError('watch takes an array of ids, "mine" or "all"');
  return name;
}

/** @param {Watched} watched */
function unknown(watched) {
  return new UnknownItem(`the server does not know the item ${watched.id}`);
}

/** @param {Error} error */
function forbidden(error) {
  return new Forbidden(error.message);
}
