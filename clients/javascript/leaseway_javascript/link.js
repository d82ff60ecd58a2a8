/**
 * A conversation that outlives its sockets: it dials, and dials again, for as long as it is wanted.
 *
 * Owns the reconnecting and its backoff. One socket is `conversation.js`'s, what opens it `door.js`'s.
 */

import { Conversation, SocketClosed } from "./conversation.js";
import { AccessRefused, ConnectionLost, Forbidden, LeasewayError, NoSuchQueue, Unauthorized } from "./errors.js";
import { onWaking } from "./outside.js";

/** Close codes after which no reconnect with the same token can help (PROTOCOL.md §6). */
const FINAL = new Map([
  [4401, Unauthorized],
  [4403, Forbidden],
  [4404, NoSuchQueue],
]);
const FIRST_CEILING = 500;
const CEILING = 30_000;
/** The same while leases are held: back well within the server's `resume_grace` of 30 s (§6). */
const URGENT_CEILING = 5_000;
/** A connection that lasted this long, milliseconds, was a good one: the next failure is a first failure. */
const STEADY = 30_000;

/**
 * Full jitter: anything from 0 to a ceiling that doubles with each failure, milliseconds. So that 10,000 clients of a
 * server that restarts do not come back at one moment.
 *
 * @param {number} failures
 * @param {number} chance  in [0, 1)
 * @param {boolean} urgent
 */
export function reconnectDelay(failures, chance, urgent) {
  return chance * Math.min(urgent ? URGENT_CEILING : CEILING, FIRST_CEILING * 2 ** Math.min(failures - 1, 10));
}

/**
 * @typedef {object} Hooks
 * @property {(events: any[]) => void} deliver  what the session has to tell
 * @property {() => void} online
 * @property {(trouble: ConnectionLost, retryInMs: number) => void} offline
 * @property {(error: LeasewayError) => void} refused  it is over: no reconnect can mend this
 */

export class Link {
  /** Why there was no connection, the last time. @type {ConnectionLost | null} */
  trouble = null;
  /** Whether the newest try of which that is known came as far as to open a socket. */
  dialled = false;
  #door;
  #kind;
  #session;
  #outside;
  #hooks;
  /** @type {Conversation | null} */
  #conversation = null;
  /** What the newest socket showed at the door. @type {import("./door.js").Pass} */
  #pass = { entered: false };
  #started = false;
  #closed = false;
  /** Ends the pause between two sockets. */
  #goOn = () => {};
  #endWaking = () => {};

  /**
   * @param {import("./door.js").Door} door
   * @param {"monitor" | "work"} kind
   * @param {import("./protocol.js").Session} session
   * @param {import("./outside.js").Outside} outside
   * @param {Hooks} hooks
   */
  constructor(door, kind, session, outside, hooks) {
    this.#door = door;
    this.#kind = kind;
    this.#session = session;
    this.#outside = outside;
    this.#hooks = hooks;
  }

  /** Connects, and stays connected until `close`, or until the server refuses it for good. */
  start() {
    if (this.#started) return;
    this.#started = true;
    this.#endWaking = onWaking(this.#outside, () => this.look());
    void this.#run();
  }

  /** The session has something to send. */
  wake() {
    this.#conversation?.wake();
  }

  /** The connection may have died unseen, or may come about again: finds out now. */
  look() {
    this.#goOn();
    this.#conversation?.look();
  }

  close() {
    this.#closed = true;
    this.#endWaking();
    this.#goOn();
    this.#conversation?.close();
  }

  async #run() {
    const { clock, random } = this.#outside;
    for (let failures = 1; !this.#closed; failures++) {
      const began = clock.now();
      const why = await this.#converse();
      if (this.#closed) return;
      const refused = this.#refusal(why);
      if (refused) {
        this.close();
        this.#hooks.refused(refused);
        return;
      }
      if (clock.now() - began >= STEADY) failures = 1;
      const delay = reconnectDelay(failures, random(), this.#session.urgent);
      this.trouble = why instanceof ConnectionLost ? why : new ConnectionLost(why.message);
      this.#hooks.offline(this.trouble, delay);
      await this.#pause(delay);
    }
  }

  /** One socket; gives why it ended. @returns {Promise<Error>} */
  async #converse() {
    try {
      const { url, pass } = await this.#way();
      if (this.#closed) return new SocketClosed(1000, "closed here");
      this.#pass = pass;
      this.dialled = true;
      this.#conversation = new Conversation(url, this.#session, this.#outside, {
        opened: () => this.#opened(),
        deliver: this.#hooks.deliver,
      });
      return await this.#conversation.ended;
    } catch (error) {
      return /** @type {Error} */ (error);
    } finally {
      this.#conversation = null;
    }
  }

  async #way() {
    try {
      return await this.#door.way(this.#kind);
    } catch (error) {
      this.dialled = false;
      throw error;
    }
  }

  #opened() {
    this.#door.entered(this.#pass);
    this.trouble = null;
    this.#hooks.online();
  }

  /** What no reconnect can mend, or null. @param {Error} why */
  #refusal(why) {
    if (why instanceof SocketClosed) {
      const kind = FINAL.get(why.code);
      if (!kind || (why.code === 4401 && this.#door.mayAskAgain(this.#pass))) return null;
      return new kind(`${this.#door.url}: ${why.message}`);
    }
    if (why instanceof ConnectionLost) return null;
    return why instanceof LeasewayError ? why : new AccessRefused(why.message, { cause: why });
  }

  /** @param {number} ms @returns {Promise<void>} */
  #pause(ms) {
    const { clock } = this.#outside;
    return new Promise((resolve) => {
      if (this.#closed) return resolve();
      const timer = clock.setTimeout(resolve, ms);
      this.#goOn = () => {
        clock.clearTimeout(timer);
        resolve();
      };
    });
  }
}
