/**
 * What one worker holds and has claimed, as data: leases, and the claims that wait on the server. Pure.
 *
 * Who decides what happens to them is `worker-state.js`; who acts on it is `worker.js`.
 */

/** How long a claim waits on the server before it answers `empty`, milliseconds. */
export const CLAIM_WAIT_MS = 60_000;
/** Milliseconds before something that the server refused for the moment is said again. */
export const PAUSE = 1_000;

/** An item that is ours. `attempts` is the fence; two leases of one item are two objects. */
export class Lease {
  renewAt = Infinity;
  /** Its handler has ended and its last report is under way. */
  settled = false;

  /** @param {import("./protocol.js").Message} message  the `item` of the server @param {number} now */
  constructor(message, now) {
    /** @type {string} */
    this.id = message.id;
    /** @type {number} */
    this.attempts = message.attempts;
    this.item = message.item;
    /** The last progress record of the attempt before, or null. */
    this.checkpoint = message.progress ?? null;
    this.meta = message.meta ?? null;
    /** How long the server gives it from each renewal, milliseconds. @type {number} */
    this.ms = message.leaseMs;
    this.renewLater(now);
  }

  /** It was renewed. @param {number} now */
  renewLater(now) {
    this.renewAt = now + this.ms / 3;
  }
}

/** The claims that wait: for how many items each, since when, and when none may be made. */
export class Claims {
  /** No claim is made before this time. */
  notBefore = -Infinity;
  /** @type {Map<number, {places: number, asked: number}>} */
  #waiting = new Map();

  get size() {
    return this.#waiting.size;
  }

  /** How many items may come. */
  get places() {
    let places = 0;
    for (const claim of this.#waiting.values()) places += claim.places;
    return places;
  }

  /** This claim was made. @param {number} ref @param {number} places @param {number} now */
  said(ref, places, now) {
    this.#waiting.set(ref, { places, asked: now });
  }

  /** An item came for it. @param {number} ref */
  item(ref) {
    const claim = this.#waiting.get(ref);
    if (claim && --claim.places === 0) this.#waiting.delete(ref);
  }

  /** It ended without all its items. @param {number} ref @param {number} now */
  empty(ref, now) {
    const claim = this.#waiting.get(ref);
    this.#waiting.delete(ref);
    // A server that stops, or does not wait: not a reason to spin.
    if (claim && now - claim.asked < PAUSE) this.notBefore = now + PAUSE;
  }

  /** It was refused; whether there was one. @param {number} ref */
  refused(ref) {
    return this.#waiting.delete(ref);
  }

  /** Claims die with their socket. */
  lost() {
    this.#waiting.clear();
  }
}
