/** One item of the queue, as its producer sees it. Decides nothing. */

import { Cancelled, Dead, Expired, Failed } from "./errors.js";

/** @typedef {import("./protocol.js").View} View */

/** @type {Record<string, typeof import("./errors.js").NotFinished>} */
const ENDINGS = { failed: Failed, dead: Dead, cancelled: Cancelled, expired: Expired };

/**
 * An item. It lives as long as its queue.
 *
 *     for await (const view of job) console.log(view.status, view.progress);
 *     const result = await job.result;
 */
export class Job {
  /** The item's id. @type {string} */
  id;
  /**
   * Whether the key of the post was known, so that this is the item that was there. It may be the very one: a post with
   * a key is said again where its answer got lost with the connection.
   *
   * @type {boolean}
   */
  duplicate;
  #watched;
  #behind;
  /** @type {Promise<any> | null} */
  #result = null;

  /**
   * Made by `Queue`.
   *
   * @param {import("./watch-state.js").Watched} watched
   * @param {{following: import("./following.js").Following, cancel: (id: string) => Promise<boolean>}} behind
   * @param {boolean} duplicate
   */
  constructor(watched, behind, duplicate) {
    this.id = watched.id;
    this.duplicate = duplicate;
    this.#watched = watched;
    this.#behind = behind;
  }

  /** The newest state that was seen, or null before the first. @returns {View | null} */
  get view() {
    return this.#watched.view;
  }

  /**
   * The result, once the item has finished; it is waited for from the first time that one asks on.
   *
   * Rejects with `Failed`, `Dead`, `Cancelled` or `Expired`, which hold the item's error, and as `Queue.watch`.
   *
   * @returns {Promise<any>}
   */
  get result() {
    this.#result ??= this.#wait();
    return this.#result;
  }

  /**
   * The states of the item, at once and again when it changed, until its end, which comes exactly once.
   *
   * @param {{signal?: AbortSignal}} [more]
   */
  watch({ signal } = {}) {
    return this.#behind.following.follow([this.#watched], signal);
  }

  [Symbol.asyncIterator]() {
    return this.watch();
  }

  /**
   * Withdraws the item, also from its worker; true also where it is cancelled already. False where it had ended
   * otherwise before. Over a lost connection it is said again.
   *
   * Rejects with `Forbidden` where it is somebody else's, `UnknownItem`, and `ConnectionLost` where the queue is
   * closed.
   *
   * @returns {Promise<boolean>}
   */
  cancel() {
    return this.#behind.cancel(this.id);
  }

  async #wait() {
    let view = null;
    for await (view of this.watch());
    const { status, result, error } = /** @type {View} */ (/** @type {unknown} */ (view));
    const Ending = ENDINGS[status];
    if (Ending) throw new Ending(this.id, error);
    return result;
  }
}
