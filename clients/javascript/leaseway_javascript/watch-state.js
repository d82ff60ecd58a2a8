/**
 * One monitor socket without I/O: posts, watched items, cancels and figures, over as many sockets as it takes.
 *
 * Messages go in; messages to send and events come out (PROTOCOL.md §3). Who waits for an item, and how, is
 * `client.js`'s business.
 */

import { Mailbox } from "./mailbox.js";
import { Posts } from "./posts.js";
import { NOBODY, checkId, encode, ended, flatten, rejected, tooLarge } from "./protocol.js";
import { monitorHello } from "./telling.js";

/** Milliseconds in which a live server tells the state of a subscribed item, or there is no such item. */
const ANSWER_WITHIN = 30_000;
/** Ids in one `subscribe`; the server takes 10,000 (§3). */
const SUBSCRIBE_IDS = 1_000;
/**
 * How many posted items are watched from the start, so that a producer that only posts stays far below the server's
 * limit of subscriptions. The others are subscribed when somebody watches them.
 */
const WATCH_POSTS_UP_TO = 1_000;

/** @typedef {import("./protocol.js").View} View */
/** @typedef {import("./protocol.js").Message} Message */

/** One item and the newest state seen of it. It outlives its subscription: the end is kept. */
export class Watched {
  /** @type {View | null} */
  view = null;
  /** The number of the latest `subscribe` that named it; 0 before the first. */
  ref = 0;

  /** @param {string} id */
  constructor(id) {
    this.id = id;
  }

  /** Whether its terminal state was seen. */
  get ended() {
    return this.view !== null && ended(this.view);
  }
}

/**
 * @typedef {{type: "posted", ref: number, watched: Watched, duplicate: boolean}
 *     | {type: "post-refused", ref: number, error: import("./errors.js").Rejected}
 *     | {type: "post-lost", ref: number}
 *     | {type: "changed", watched: Watched}
 *     | {type: "not-watched", watched: Watched, error: import("./errors.js").Rejected | null}
 *     | {type: "cancelled", ref: number, ack: Message}
 *     | {type: "cancel-refused", ref: number, error: import("./errors.js").Rejected}
 *     | {type: "stats", stats: Message}
 *     | {type: "stats-refused", error: import("./errors.js").Rejected}} WatchEvent
 */

export class WatchState extends Mailbox {
  urgent = false;
  online = false;
  /** Those that are subscribed. @type {Map<string, Watched>} */
  #watched = new Map();
  /** All that somebody holds, so that one item is one object. @type {Map<string, WeakRef<Watched>>} */
  #known = new Map();
  #forget = new FinalizationRegistry((/** @type {string} */ id) => {
    if (!this.#known.get(id)?.deref()) this.#known.delete(id);
  });
  /** When the state of each was asked for that was not told since; the oldest first. @type {Map<string, number>} */
  #asked = new Map();
  /** Cancels without an answer, by their numbers. @type {Map<number, string>} */
  #cancels = new Map();
  #posts = new Posts();
  #stats = false;
  #statsRef = 0;
  #telling;

  /** @param {import("./telling.js").Telling} [telling] */
  constructor(telling = {}) {
    super();
    this.#telling = telling;
  }

  // What the connection asks and tells

  get interested() {
    return this.#watched.size > 0 || this.#posts.size > 0 || this.#cancels.size > 0 || this.#stats;
  }

  /** When the oldest question for a state is overdue. */
  get deadline() {
    const [oldest = Infinity] = this.#asked.values();
    return oldest + ANSWER_WITHIN;
  }

  hello() {
    return monitorHello(this.#telling);
  }

  /** The ack, or the refusal, says that the server lives. */
  probe() {
    return encode({ cancel: [NOBODY], ref: this.nextRef() });
  }

  /** Subscribes anew, which brings the newest state of each (§3). @param {Message} hello @param {number} now */
  opened(hello, now) {
    this.online = true;
    this.maxBytes = hello.maxMessageBytes;
    this.#refuseTooLarge();
    this.#subscribe([...this.#watched.values()], now);
    this.outgoing.push(...this.#cancels.values());
    if (this.#stats) this.#askStats();
  }

  /** Posts that were said before anybody knew how much is too much. */
  #refuseTooLarge() {
    for (const [ref, text] of this.#posts.texts()) {
      const error = tooLarge(text, this.maxBytes);
      if (!error) continue;
      this.#posts.take(ref);
      this.#tell({ type: "post-refused", ref, error });
    }
  }

  /** What was posted without a key and not answered is unknown: it must not be posted again blindly. */
  lost() {
    this.online = false;
    this.outgoing = [];
    this.#asked.clear();
    for (const ref of this.#posts.lost()) this.#tell({ type: "post-lost", ref });
  }

  /** @override */
  nextMessage() {
    return super.nextMessage() ?? this.#posts.nextMessage();
  }

  /** Gives up the items of which a live server told nothing. @param {number} now */
  tick(now) {
    for (const [id, asked] of this.#asked) {
      if (asked + ANSWER_WITHIN > now) return;
      this.#giveUp(/** @type {Watched} */ (this.#watched.get(id)), null);
    }
  }

  /** @param {Message} message @param {number} now */
  received(message, now) {
    for (const one of flatten(message)) {
      if (one.type === "posted") this.#onPosted(one, now);
      else if (one.type === "status") this.#onStatus(/** @type {any} */ (one));
      else if (one.type === "cancel-ack") this.#onCancelAck(one);
      else if (one.type === "stats") this.#tell({ type: "stats", stats: one });
      else if (one.type === "error") this.#onError(one);
    }
  }

  // What the client says

  /** Says a post and gives its number. Throws `Rejected` for what cannot be sent. @param {Message} body */
  post(body) {
    const ref = this.nextRef();
    const watch = this.#watched.size + this.#posts.watching < WATCH_POSTS_UP_TO;
    const text = encode({ post: watch ? { ...body, subscribe: true } : body, ref }, this.maxBytes);
    this.#posts.add(ref, { text, repeatable: body.key !== undefined, watch });
    return ref;
  }

  /** Nobody waits for this post any more. True if it was never sent, so that nothing was posted. @param {number} ref */
  forgetPost(ref) {
    const post = this.#posts.take(ref);
    return post !== undefined && !post.everSent;
  }

  /** Says a cancel, again on every new socket until it is answered, and gives its number. @param {string} id */
  cancel(id) {
    const ref = this.nextRef();
    const text = encode({ cancel: [id], ref });
    this.#cancels.set(ref, text);
    if (this.online) this.outgoing.push(text);
    return ref;
  }

  /** Nobody waits for its answer any more. @param {number} ref */
  forgetCancel(ref) {
    this.#cancels.delete(ref);
  }

  /** Whether the queue's figures are wanted. @param {boolean} wanted */
  showStats(wanted) {
    if (wanted === this.#stats) return;
    this.#stats = wanted;
    if (this.online) this.#askStats();
  }

  /** The one `Watched` of an item that has not ended. Throws for what is no id. @param {string} id */
  item(id) {
    const known = this.#known.get(checkId(id))?.deref();
    if (known && !known.ended) return known; // Of one that ended: an administrator may have retried it since.
    const watched = new Watched(id);
    this.#known.set(id, new WeakRef(watched));
    this.#forget.register(watched, id);
    return watched;
  }

  /** Subscribes to those that are not watched yet and have not ended. @param {Watched[]} items @param {number} now */
  watch(items, now) {
    const fresh = items.filter((watched) => !this.#watched.has(watched.id) && !watched.ended);
    for (const watched of fresh) this.#watched.set(watched.id, watched);
    if (this.online) this.#subscribe(fresh, now);
  }

  /** Ends the subscription of an item, if it has one. @param {Watched} watched */
  unwatch(watched) {
    if (this.#watched.get(watched.id) !== watched) return;
    this.#watched.delete(watched.id);
    this.#asked.delete(watched.id);
    if (this.online) this.say({ unsubscribe: [watched.id] });
  }

  /** Somebody saw this state of the item, here or over HTTP. @param {Watched} watched @param {View} view */
  seen(watched, view) {
    if (watched.view !== null && view.rev <= watched.view.rev) return;
    watched.view = view;
    if (watched.ended) this.unwatch(watched);
    this.#tell({ type: "changed", watched });
  }

  // What the server said

  /** @param {Message} message @param {number} now */
  #onPosted(message, now) {
    const post = this.#posts.take(message.ref);
    if (post === undefined) {
      // Nobody waits for it any more. (One without an id was an array of posts, which we never say.)
      if (message.id && !this.#watched.has(message.id)) this.say({ unsubscribe: [message.id] });
      return;
    }
    const watched = this.item(message.id);
    if (post.watch) this.#watchFromNow(watched, message.duplicate, now);
    this.#tell({ type: "posted", ref: message.ref, watched, duplicate: message.duplicate });
  }

  /**
   * The post subscribed to it. One that was there before may have been unsubscribed while the post was on its way, and
   * then its state would not be told: it is asked for again.
   *
   * @param {Watched} watched
   * @param {boolean} duplicate
   * @param {number} now
   */
  #watchFromNow(watched, duplicate, now) {
    if (duplicate) {
      this.watch([watched], now);
    } else if (!this.#watched.has(watched.id)) {
      this.#watched.set(watched.id, watched);
      this.#asked.set(watched.id, now);
    }
  }

  /** @param {View} view */
  #onStatus(view) {
    const watched = this.#watched.get(view.id);
    if (!watched) return; // It was on its way while the subscription ended.
    this.#asked.delete(view.id);
    this.seen(watched, view);
  }

  /** @param {Message} ack */
  #onCancelAck(ack) {
    if (this.#cancels.delete(ack.ref)) this.#tell({ type: "cancelled", ref: ack.ref, ack });
  }

  /** @param {Message} message */
  #onError(message) {
    const ref = message.ref ?? 0;
    const error = rejected(message);
    if (this.#posts.take(ref)) this.#tell({ type: "post-refused", ref, error });
    else if (this.#cancels.delete(ref)) this.#tell({ type: "cancel-refused", ref, error });
    else if (this.#stats && ref === this.#statsRef) this.#refuseStats(error);
    else
      for (const watched of this.#watched.values()) if (ref !== 0 && watched.ref === ref) this.#giveUp(watched, error);
  }

  /** @param {import("./errors.js").Rejected} error */
  #refuseStats(error) {
    this.#stats = false;
    this.#tell({ type: "stats-refused", error });
  }

  // The parts

  #askStats() {
    this.#statsRef = this.say({ stats: this.#stats });
  }

  /** @param {Watched} watched @param {import("./errors.js").Rejected | null} error */
  #giveUp(watched, error) {
    this.#watched.delete(watched.id);
    this.#asked.delete(watched.id);
    this.#tell({ type: "not-watched", watched, error });
  }

  /** @param {Watched[]} fresh @param {number} now */
  #subscribe(fresh, now) {
    for (let start = 0; start < fresh.length; start += SUBSCRIBE_IDS) {
      const some = fresh.slice(start, start + SUBSCRIBE_IDS);
      const ref = this.say({ subscribe: some.map((watched) => watched.id) });
      for (const watched of some) {
        watched.ref = ref;
        this.#asked.delete(watched.id);
        this.#asked.set(watched.id, now);
      }
    }
  }

  /** @param {WatchEvent} event */
  #tell(event) {
    this.events.push(event);
  }
}
