/**
 * What the client needs of the world: sockets, requests, time, chance, and to be told that the machine woke up.
 *
 * The only file that touches globals, so that tests (and programs for whom these are somewhere else) hand in their own.
 */

/**
 * @typedef {object} Clock  Milliseconds. `now` never steps back; `wall` is the time of day, and goes on during sleep.
 * @property {() => number} now
 * @property {() => number} wall
 * @property {(action: () => void, ms: number) => any} setTimeout
 * @property {(timer: any) => void} clearTimeout
 */

/**
 * @typedef {object} Outside
 * @property {new (url: string) => WebSocket} WebSocket
 * @property {typeof fetch} fetch
 * @property {Clock} clock
 * @property {() => number} random  uniform in [0, 1)
 * @property {EventTarget | undefined} events  where `online`, `offline`, `pageshow` and `visibilitychange` are told
 */

/** The machine's timers take no more milliseconds: what is longer would ring at once. */
const LONGEST = 2 ** 31 - 1;

/** The machine's own. What is due in infinity never is. @type {Clock} */
export const CLOCK = {
  now: () => performance.now(),
  wall: () => Date.now(),
  setTimeout: (action, ms) => (ms === Infinity ? undefined : setTimeout(action, Math.min(ms, LONGEST))),
  clearTimeout: (timer) => clearTimeout(timer),
};
const WAKING = ["online", "offline", "pageshow", "visibilitychange"];

/**
 * The world as it is, but for what is handed in. Throws a `TypeError` where there is no WebSocket.
 *
 * @param {Partial<Outside>} [given]
 * @returns {Outside}
 */
export function outsideOf(given = {}) {
  const found = given.WebSocket ?? globalThis.WebSocket;
  if (!found) throw new TypeError("there is no WebSocket here (Node has one from 22 on): pass one as WebSocket");
  return {
    WebSocket: found,
    fetch: given.fetch ?? ((request, init) => globalThis.fetch(request, init)),
    clock: given.clock ?? CLOCK,
    random: given.random ?? Math.random,
    events: given.events ?? ("addEventListener" in globalThis ? globalThis : undefined),
  };
}

/**
 * Calls `woken` whenever a connection may have died unseen or may come about again: the network came or went, the page
 * came back to the front or out of the browser's cache. Gives what ends it.
 *
 * @param {Outside} outside
 * @param {() => void} woken
 * @returns {() => void}
 */
export function onWaking({ events }, woken) {
  if (!events) return () => {};
  const target = events;
  for (const kind of WAKING) target.addEventListener(kind, woken, true); // Capturing: the page's own pass by here.
  return () => {
    for (const kind of WAKING) target.removeEventListener(kind, woken, true);
  };
}
