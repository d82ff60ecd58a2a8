/**
 * The words of PROTOCOL.md that both sockets share: JSON in and out, batches, refusals, views.
 *
 * Pure: no socket, no clock, no chance. What one kind of socket knows lives in `watch-state.js`, `feed-state.js` and
 * `worker-state.js`; what moves the messages lives in `conversation.js` and `link.js`.
 */

import { Rejected } from "./errors.js";

/**
 * One item as the server shows it (§3). Times are milliseconds since the Unix epoch, on the server's clock.
 *
 * @typedef {object} View
 * @property {string} id
 * @property {string} status  `pending`, `processing`, or an end: `finished`, `failed`, `dead`, `cancelled`, `expired`
 * @property {string} label  the status, or `scheduled` or `retrying`
 * @property {number} rev  grows with every change
 * @property {string | null} postedBy
 * @property {number} postedAt
 * @property {number} updatedAt
 * @property {number | null} startedAt  the latest claim
 * @property {number | null} finishedAt  the time of any end
 * @property {number} dueAt
 * @property {number | null} expiresAt
 * @property {number} attempts
 * @property {number} failures
 * @property {number} losses
 * @property {number} maxAttempts
 * @property {number} priority
 * @property {string | null} worker
 * @property {string | null} key
 * @property {any} progress
 * @property {any} result
 * @property {{message: string, code?: string, detail?: any} | null} error
 * @property {any} meta
 */

/** @typedef {Record<string, any>} Message */

/**
 * One side of one conversation, without I/O: messages in, messages and events out. It outlives its sockets: `opened`
 * and `lost` tell it when one comes and goes. Times are milliseconds on one monotonic clock.
 *
 * @typedef {object} Session
 * @property {boolean} urgent  leases are held that the server gives away after a while: a reconnect is pressing
 * @property {boolean} interested  something is waited for, so that a silent connection must be tried now and then
 * @property {number} deadline  when `tick` is due at the latest; infinity if never
 * @property {() => string} hello  the first message of every socket
 * @property {() => string} probe  a message that a live server answers, whatever the rights
 * @property {(hello: Message, now: number) => void} opened  a socket stands, and this was the server's `hello`
 * @property {(message: Message, now: number) => void} received  the server said this; throws what no reconnect can mend
 * @property {() => void} lost  the socket is gone; what was said on it may have been heard or not
 * @property {(now: number) => void} tick  does what is due by `now`
 * @property {() => string | null} nextMessage  what to send next; what was handed out counts as sent
 * @property {() => any[]} takeEvents  what happened since the last call, in order
 */

export const CLIENT = "leaseway-javascript/0.1";
/** What common WebSocket libraries accept by default (§5); `hello` tells the server's own limit. Bytes. */
export const DEFAULT_MAX_BYTES = 1_048_576;
/** An id that no item has: what is asked of it changes nothing and has an answer. */
export const NOBODY = "0000000000000000";
/** Codes of `error` that pass by themselves: the same message is good later (§4). */
export const PASSING = new Set(["unavailable", "limit"]);
const TERMINAL = new Set(["finished", "failed", "dead", "cancelled", "expired"]);
const ITEM_ID = /^[0-9a-f]{16}$/;
/** Of arrays and objects within an item, a record or a result; and how many the message puts around one. */
const LEVELS = 64;
const AROUND = 2;
/** What `JSON.stringify` makes of half a character: the protocol does not keep it. */
const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f][0-9a-f]{2}/;

/** Whether the state is terminal. @param {View} view @returns {boolean} */
export function ended(view) {
  return TERMINAL.has(view.status);
}

/** Throws a `TypeError` for what is no item's id. @param {unknown} id @returns {string} */
export function checkId(id) {
  if (typeof id !== "string" || !ITEM_ID.test(id)) throw new TypeError("an id is 16 lower-case hex digits");
  return id;
}

/**
 * One text frame. Throws `Rejected` for what JSON cannot keep and for what the server would not read.
 *
 * @param {Message} message
 * @param {number} [maxBytes]
 * @returns {string}
 */
export function encode(message, maxBytes = DEFAULT_MAX_BYTES) {
  const text = written(message);
  if (LONE_SURROGATE.test(text)) throw new Rejected("bad-json", [{ path: "", message: "half of a surrogate pair" }]);
  const error = tooLarge(text, maxBytes);
  if (error) throw error;
  return text;
}

/** The refusal of a message that is larger than that, or null. @param {string} text @param {number} maxBytes */
export function tooLarge(text, maxBytes) {
  const size = byteLength(text);
  if (size <= maxBytes) return null;
  return new Rejected("too-large", [{ path: "", message: `${size} bytes, ${maxBytes} are allowed` }]);
}

/** Whatever hinders it, getters and `toJSON` of the program's own too, is a `Rejected`. @param {Message} message */
function written(message) {
  try {
    checkKept(message, LEVELS + AROUND, "");
    return JSON.stringify(message);
  } catch (error) {
    if (error instanceof Rejected) throw error;
    refuse("", `cannot be written as JSON (${error instanceof Error ? error.message : typeof error})`);
  }
}

/** The bytes of a text as UTF-8. @param {string} text @returns {number} */
export function byteLength(text) {
  return new TextEncoder().encode(text).length;
}

/**
 * Throws `Rejected` for what JSON would lose without a word.
 *
 * @param {any} value
 * @param {number} levels  arrays and objects that may be within each other
 * @param {string} path  a JSON Pointer to the value, for the report
 */
export function checkKept(value, levels, path) {
  checkPlain(typeof value?.toJSON === "function" ? value.toJSON("") : value, levels, path);
}

/** @param {any} value  what is written, after `toJSON` @param {number} levels @param {string} path */
function checkPlain(value, levels, path) {
  const kind = typeof value;
  if (kind === "number") checkNumber(value, path);
  else if (kind === "bigint" || kind === "function" || kind === "symbol") refuse(path, `a ${kind} is no JSON`);
  else if (value === undefined) refuse(path, "undefined is no JSON");
  else if (kind === "object" && value !== null) {
    if (levels === 0) refuse(path, "nested too deeply, or within itself");
    checkMembers(value, levels - 1, path);
  }
}

/** @param {any} value @param {number} levels @param {string} path */
function checkMembers(value, levels, path) {
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value) || value instanceof Map || value instanceof Set) {
    refuse(path, `a ${value.constructor.name} is no JSON: make a text or an array of it`);
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) checkKept(value[index], levels, `${path}/${index}`);
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    // A member that is undefined is left out, as everywhere in JavaScript.
    if (member !== undefined) checkKept(member, levels, `${path}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`);
  }
}

/** @param {number} value @param {string} path */
function checkNumber(value, path) {
  if (!Number.isFinite(value)) refuse(path, "a number is not finite");
  // Up to 1e21 they are written with all their digits, as integers, of which the protocol keeps those of 64 bits.
  if (Math.abs(value) < 1e21 && (value >= 2 ** 64 || value < -(2 ** 63))) refuse(path, "an integer of over 64 bits");
}

/** @param {string} path @param {string} message @returns {never} */
function refuse(path, message) {
  throw new Rejected("bad-json", [{ path, message }]);
}

/** The object in a frame of the server. Throws for what is none. @param {unknown} data @returns {Message} */
export function decode(data) {
  const message = JSON.parse(/** @type {string} */ (data));
  if (message === null || typeof message !== "object" || Array.isArray(message)) throw new TypeError("no JSON object");
  return message;
}

/** The messages in a message: a `batch` of the server holds several, in order (§4). @param {Message} message */
export function flatten(message) {
  return /** @type {Message[]} */ (message.type === "batch" ? message.messages : [message]);
}

/** An `error` message, or a problem document, as an error to throw. @param {Message} message */
export function rejected(message) {
  return new Rejected(String(message.code), message.errors ?? []);
}
