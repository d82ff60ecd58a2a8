/**
 * One socket, from dialling to its end: greeting, reading, writing, and finding out that it has died unseen.
 *
 * What is said is the session's business, and when to dial anew `link.js`'s.
 */

import { LeasewayError } from "./errors.js";
import { decode, flatten } from "./protocol.js";

/** Milliseconds in which a socket must have come about and the server's `hello` have come. */
const HELLO_WITHIN = 15_000;
/** After so long without a word a server is asked for one, where somebody waits; and then it has so long. */
const QUIET = 30_000;
const ANSWER_WITHIN = 10_000;
/** A timer that is so late says that the machine slept, or the page was frozen. */
const LATE = 5_000;
/** Timers cannot be longer than 2³¹ ms; and now and then all is looked at anew. */
const LONGEST = 60_000;

/** How a socket ended, or why none came about. `code` is its close code, 1006 where none was told. */
export class SocketClosed extends Error {
  /** @param {number} code @param {string} reason */
  constructor(code, reason) {
    super(`${code} ${reason}`.trim());
    this.code = code;
  }
}

export class Conversation {
  /** Why it ended: a `SocketClosed`, or the error that no reconnect can mend. @type {Promise<Error>} */
  ended;
  #session;
  #clock;
  #hooks;
  /** @type {WebSocket} */
  #socket;
  /** @type {(why: Error) => void} */
  #resolve = () => {};
  #open = false;
  #over = false;
  /** @type {any} */
  #timer = null;
  #heardAt;
  #probedAt = Infinity;

  /**
   * Dials. Throws a `SocketClosed` where the address cannot even be tried.
   *
   * @param {string} url
   * @param {import("./protocol.js").Session} session
   * @param {import("./outside.js").Outside} outside
   * @param {{opened: () => void, deliver: (events: any[]) => void}} hooks
   */
  constructor(url, session, { WebSocket, clock }, hooks) {
    this.#session = session;
    this.#clock = clock;
    this.#hooks = hooks;
    this.#heardAt = clock.now();
    this.ended = new Promise((resolve) => (this.#resolve = resolve));
    try {
      this.#socket = new WebSocket(url);
    } catch (error) {
      throw new SocketClosed(1006, /** @type {Error} */ (error).name); // Its message may hold the address.
    }
    this.#socket.onopen = () => this.#socket.send(session.hello());
    this.#socket.onmessage = (event) => this.#hear(event.data);
    this.#socket.onclose = (event) => this.#finish(new SocketClosed(event.code, event.reason));
    this.#socket.onerror = () => {}; // Its close follows, and says more.
    this.#arm(HELLO_WITHIN);
  }

  /** The session has something to send. */
  wake() {
    if (this.#open) this.#turn();
  }

  /** The connection may have died unseen: asks the server for a word. */
  look() {
    if (!this.#open) return;
    this.#probe();
    this.#turn();
  }

  /** Ends it with 1000. */
  close() {
    this.#finish(new SocketClosed(1000, "closed here"));
  }

  /** @param {unknown} data */
  #hear(data) {
    const now = this.#clock.now();
    this.#heardAt = now;
    this.#probedAt = Infinity;
    try {
      const message = decode(data);
      if (this.#open) this.#session.received(message, now);
      else this.#greeted(flatten(message), now);
    } catch (error) {
      this.#finish(error instanceof LeasewayError || error instanceof SocketClosed ? error : unreadable(error));
      return;
    }
    this.#turn();
  }

  /** @param {import("./protocol.js").Message[]} messages @param {number} now */
  #greeted([hello, ...rest], now) {
    if (hello?.type !== "hello") throw new SocketClosed(1002, "the server did not answer the hello");
    this.#open = true;
    this.#session.opened(hello, now);
    this.#hooks.opened();
    for (const message of rest) this.#session.received(message, now);
  }

  /** Does what is due, tells what happened, sends what there is to say, and sleeps until more is due. */
  #turn() {
    const now = this.#clock.now();
    this.#session.tick(now);
    this.#hooks.deliver(this.#session.takeEvents());
    if (this.#over) return; // Closed by who was told.
    for (let text = this.#session.nextMessage(); text !== null; text = this.#session.nextMessage()) {
      this.#socket.send(text);
    }
    this.#arm(Math.min(this.#session.deadline, this.#livenessDue()) - now);
  }

  #livenessDue() {
    if (this.#probedAt < Infinity) return this.#probedAt + ANSWER_WITHIN;
    return this.#session.interested ? this.#heardAt + QUIET : Infinity;
  }

  #probe() {
    this.#probedAt = this.#clock.now();
    this.#socket.send(this.#session.probe());
  }

  /** @param {number} late  milliseconds */
  #ring(late) {
    if (!this.#open) {
      this.#finish(new SocketClosed(1006, `no hello within ${HELLO_WITHIN / 1000} s`));
      return;
    }
    if (late > LATE)
      this.#probe(); // What the server said meanwhile is still to be read: no time for judgement.
    else if (this.#livenessDue() <= this.#clock.now()) {
      if (this.#probedAt < Infinity) {
        this.#finish(new SocketClosed(1006, "the server is silent"));
        return;
      }
      this.#probe();
    }
    this.#turn();
  }

  /** @param {number} ms */
  #arm(ms) {
    this.#clock.clearTimeout(this.#timer);
    const wait = Math.max(0, Math.min(ms, LONGEST));
    const due = this.#clock.wall() + wait;
    this.#timer = this.#clock.setTimeout(() => this.#ring(this.#clock.wall() - due), wait);
  }

  /** A dead socket may take minutes to close, so nobody waits for that. @param {Error} why */
  #finish(why) {
    if (this.#over) return;
    this.#over = true;
    this.#clock.clearTimeout(this.#timer);
    this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
    if (this.#open) {
      this.#session.lost();
      this.#hooks.deliver(this.#session.takeEvents());
    }
    this.#resolve(why);
  }
}

/** @param {unknown} error */
function unreadable(error) {
  return new SocketClosed(1007, `a message of the server cannot be read (${/** @type {Error} */ (error).message})`);
}
