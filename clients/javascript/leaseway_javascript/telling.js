/** How one wants to be told what a monitor socket tells (PROTOCOL.md §3): how often, and whether the ends count. */

import { CLIENT, encode } from "./protocol.js";

/** Milliseconds. */
const LONGEST_PACE = 60_000;

/**
 * @typedef {object} Telling
 * @property {number | undefined} [paceMs]  what changes is told at most once in so many milliseconds, 1 to 60,000, on each
 *     connection: of every item the newest state. Answers and first states do not wait. Without it all is told as it
 *     happens
 * @property {number | undefined} [paceOffsetMs]  less than `paceMs`, beside which it stands: changes are told so long
 *     after a multiple of it by the server's clock, so that several connections are told in turn
 * @property {boolean | undefined} [stamp]  false for who looks on while another waits for the ends: what is told here does not count
 *     as fetched, so that no item is deleted the sooner for it
 */

/** Throws a `TypeError` for what is none. @param {Telling} options @returns {Telling} */
export function tellingOf({ paceMs, paceOffsetMs, stamp }) {
  if (paceMs !== undefined && !(Number.isInteger(paceMs) && paceMs >= 1 && paceMs <= LONGEST_PACE)) {
    throw new TypeError(`paceMs is a whole number of milliseconds from 1 to ${LONGEST_PACE}`);
  }
  if (paceOffsetMs !== undefined && !(Number.isInteger(paceOffsetMs) && paceOffsetMs >= 0 && paceOffsetMs < (paceMs ?? 0))) {
    throw new TypeError("paceOffsetMs is a whole number of milliseconds from 0 to less than paceMs");
  }
  if (stamp !== undefined && typeof stamp !== "boolean") throw new TypeError("stamp is true or false");
  return { paceMs, paceOffsetMs, stamp };
}

/** The first message of every monitor socket. @param {Telling} telling @returns {string} */
export function monitorHello(telling) {
  return encode({ hello: { client: CLIENT, batch: true, ...telling } });
}
