/** Who looks: a token, or nobody in particular. It is in memory, and in the tab's storage only where the person says so. */

import { Queue } from "../../_client/client.js";
import { keep, readKept } from "../kept.js";
import { addressOf, entry, queuesFor } from "./server.js";

/** Between two pushes to one who looks, milliseconds: however many connections, together they are told so often. */
const PUSH_EVERY = 500;

export class Session extends EventTarget {
  /** Those that one has any right on. @type {{queue: string, rights: string[]}[]} */
  queues = [];
  #token = readKept("sessionStorage", "token");

  get signedIn() {
    return this.#token !== "";
  }

  /** Asks again what one may see. Throws `Unauthorized` and `ConnectionLost`. */
  async refresh() {
    this.queues = await queuesFor(this.#token);
    this.dispatchEvent(new Event("queues"));
  }

  /**
   * Throws, and all stays as it was, where the token is not valid, or cannot be one.
   *
   * @param {string} token
   * @param {boolean} remember  in this tab
   */
  async signIn(token, remember) {
    this.queues = await queuesFor(token);
    this.#token = token;
    keep("sessionStorage", "token", remember ? token : "");
    this.dispatchEvent(new Event("queues"));
  }

  signOut() {
    this.#token = "";
    this.queues = [];
    keep("sessionStorage", "token", "");
    this.dispatchEvent(new Event("queues"));
  }

  /**
   * A queue, by the JavaScript client: over sockets the token goes as a ticket, so that it enters no URL. Who looks here
   * fetches nothing: another may wait for the ends.
   *
   * @param {string} queue
   * @param {number} connections  of the screen, of which it is one
   * @param {number} [turn]  which of them: where there are more than two, they are told in turn
   */
  open(queue, connections, turn) {
    const pace = { paceMs: PUSH_EVERY * connections, paceOffsetMs: turn === undefined ? turn : PUSH_EVERY * turn };
    return new Queue(addressOf(queue), { ...entry(this.#token), ...pace, stamp: false });
  }

  /** @param {string} queue */
  rightsOn(queue) {
    return new Set(this.queues.find((each) => each.queue === queue)?.rights);
  }
}
