/**
 * The errors of the client library: one tree, and the signals that a handler may throw.
 *
 *     LeasewayError
 *     ├── ConnectionLost           the server cannot be reached, or its answer did not come
 *     │   ├── PostUnknown          a post may or may not have been made
 *     │   └── SocketsBlocked       it answers over HTTP, and no WebSocket comes about
 *     ├── AccessRefused            a reconnect would not help
 *     │   ├── Unauthorized         no token, or a bad one       (close code 4401)
 *     │   ├── Forbidden            the token lacks this right   (4403)
 *     │   └── NoSuchQueue          no such queue for this token (4404)
 *     ├── Rejected                 what was said cannot be accepted; nothing was stored
 *     ├── UnknownItem              the server knows no such item (any more)
 *     ├── LeaseLost                the item is no longer this worker's
 *     ├── HandlerLost              a Web Worker ended without an outcome
 *     │   ├── HandlerCrashed       by an error that nobody caught
 *     │   └── HandlerHung          it gave no sign for too long
 *     └── NotFinished              the item ended without a result
 *         ├── Failed
 *         ├── Dead
 *         ├── Cancelled
 *         └── Expired
 *     HandlerSignal
 *     ├── Permanent                this item can never succeed
 *     └── Release                  give the item back, at no charge
 *
 * An error never holds a token. Nothing but errors lives here.
 */

/** @typedef {{path: string, message: string}} Fault  A place that a schema or an option refused (PROTOCOL.md §4). */

/** Whatever this library raises by itself. */
export class LeasewayError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server cannot be reached, or the connection ended before the answer came. */
export class ConnectionLost extends LeasewayError {}

/** A post was said and its answer never came: the item may or may not be in the queue. */
export class PostUnknown extends ConnectionLost {}

/** The server answers over HTTP, and no WebSocket comes about: something in between seems to block them. */
export class SocketsBlocked extends ConnectionLost {}

/** The server will not have this connection, however often it is tried (PROTOCOL.md §2). */
export class AccessRefused extends LeasewayError {}

/** No valid token where one is needed. */
export class Unauthorized extends AccessRefused {}

/** The token is good, but has not the right that is needed. */
export class Forbidden extends AccessRefused {}

/** No queue of that name exists for this token. */
export class NoSuchQueue extends AccessRefused {}

/**
 * Something that was said was refused, by the server or before it was sent.
 *
 * `code` is the protocol's stable word (§4: `schema`, `too-large`, `limit`, …), `errors` its list of places.
 */
export class Rejected extends LeasewayError {
  /** @param {string} code @param {Fault[]} errors */
  constructor(code, errors) {
    const texts = errors.map((fault) => `${fault.path || "/"}: ${fault.message}`).join("; ");
    super(texts ? `${code}: ${texts}` : code);
    this.code = code;
    this.errors = errors;
  }
}

/** The server knows no such item: it never existed, it was deleted, or it is not ours to see. */
export class UnknownItem extends LeasewayError {}

/** The item was taken away from its worker: cancelled, expired, lapsed, or finished by somebody else. */
export class LeaseLost extends LeasewayError {}

/** A Web Worker ended without an outcome. The attempt ends as a fault that the queue retries. */
export class HandlerLost extends LeasewayError {}

/** An error in a Web Worker that nobody caught. */
export class HandlerCrashed extends HandlerLost {}

/** A Web Worker gave no sign for too long and was ended. */
export class HandlerHung extends HandlerLost {}

/**
 * The item ended in another state than `finished`.
 *
 * `error` is the last fault as the server tells it (`{message, code?, detail?}`), or null.
 */
export class NotFinished extends LeasewayError {
  /** @param {string} id @param {{message: string, code?: string, detail?: any} | null} error */
  constructor(id, error) {
    super(`${id}: ${error?.message ?? "no error was told"}`);
    this.id = id;
    this.error = error;
  }
}

/** A worker said that the item can never succeed. */
export class Failed extends NotFinished {}

/** The item used up its tries, or took too many workers down. */
export class Dead extends NotFinished {}

/** The item was withdrawn. */
export class Cancelled extends NotFinished {}

/** The item's time to live ran out. */
export class Expired extends NotFinished {}

/** What a handler throws to say how its attempt ends. */
export class HandlerSignal extends Error {}

/** Ends the item as `failed`: no other attempt could succeed. */
export class Permanent extends HandlerSignal {
  /** @param {string} message @param {{code?: string, detail?: any}} [more] */
  constructor(message, { code, detail } = {}) {
    super(message);
    this.name = "Permanent";
    this.code = code;
    this.detail = detail;
  }
}

/** Gives the item back to the queue at no charge, claimable after `delayMs`; without it at once. */
export class Release extends HandlerSignal {
  /** @param {number} [delayMs] */
  constructor(delayMs) {
    super("released");
    this.name = "Release";
    this.delayMs = delayMs;
  }
}
