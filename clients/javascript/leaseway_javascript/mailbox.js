/** What a session has to send and to tell, until somebody fetches it. The numbers of what it says. Pure. */

import { encode } from "./protocol.js";

export class Mailbox {
  /** The largest message that the server reads, bytes; until it said so nothing is too large. */
  maxBytes = Infinity;
  /** @type {string[]} */
  outgoing = [];
  /** @type {any[]} */
  events = [];
  #ref = 0;

  /** The next number; every message has one of its own, over all sockets. */
  nextRef() {
    return ++this.#ref;
  }

  /** Says a message, and gives its number. @param {import("./protocol.js").Message} message */
  say(message) {
    const ref = this.nextRef();
    this.outgoing.push(encode({ ...message, ref }, this.maxBytes));
    return ref;
  }

  /** What to send next, or null. @returns {string | null} */
  nextMessage() {
    return this.outgoing.shift() ?? null;
  }

  /** What happened since the last call, in order. @returns {any[]} */
  takeEvents() {
    return this.events.splice(0);
  }
}
