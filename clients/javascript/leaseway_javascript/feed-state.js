/**
 * One monitor socket without I/O that follows all items of this user (`mine`) or all of the queue (`all`), over as many
 * sockets as it takes (PROTOCOL.md §3).
 *
 * It has a socket of its own: on one that also names items by id, nobody could tell which of the two a state is for.
 *
 * A new subscription brings all that is open, and of `mine` what ended and was not fetched yet. What ended in a gap and
 * was fetched elsewhere meanwhile is in neither; so what was open here before the gap is asked for by its id too.
 */

import { Mailbox } from "./mailbox.js";
import { NOBODY, encode, ended, flatten, rejected } from "./protocol.js";
import { monitorHello } from "./telling.js";

/** Milliseconds in which a live server tells the states that were asked for. */
const ANSWER_WITHIN = 30_000;
/** Ids that are asked for at a time, so that the server's limit of subscriptions is met by nobody. */
const CHECKED_AT_A_TIME = 100;
/** So many items are remembered, open ones and ended ones each; the oldest are forgotten first. */
const KEPT = 10_000;

/** @typedef {import("./protocol.js").View} View */
/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {{type: "fed", view: View} | {type: "refused", error: import("./errors.js").Rejected}} FeedEvent */

export class FeedState extends Mailbox {
  urgent = false;
  interested = true;
  #name;
  #telling;
  /** The newest `rev` that was told, by id. @type {Map<string, number>} */
  #open = new Map();
  /**
   * The same of those that ended: the server may tell an end twice (§3), this client does not.
   *
   * @type {Map<string, number>}
   */
  #ended = new Map();
  /** Still to be asked for after a gap, and asked for now. @type {string[]} */
  #unchecked = [];
  /** @type {Set<string>} */
  #checking = new Set();
  #checkDue = Infinity;
  #followRef = 0;

  /** @param {"mine" | "all"} name @param {import("./telling.js").Telling} [telling] */
  constructor(name, telling = {}) {
    super();
    this.#name = name;
    this.#telling = telling;
  }

  get deadline() {
    return this.#checkDue;
  }

  hello() {
    return monitorHello(this.#telling);
  }

  probe() {
    return encode({ cancel: [NOBODY], ref: this.nextRef() });
  }

  /** @param {Message} _hello @param {number} now */
  opened(_hello, now) {
    this.#followRef = this.say({ subscribe: { [this.#name]: true } });
    this.#unchecked = [...this.#open.keys()];
    this.#check(now);
  }

  lost() {
    this.outgoing = [];
    this.#checking.clear();
    this.#checkDue = Infinity;
  }

  /** What a live server told nothing of is no more. @param {number} now */
  tick(now) {
    if (now < this.#checkDue) return;
    const gone = [...this.#checking];
    for (const id of gone) this.#open.delete(id);
    this.#checked(gone, now);
  }

  /** @param {Message} message @param {number} now */
  received(message, now) {
    for (const one of flatten(message)) {
      if (one.type === "status") this.#onStatus(/** @type {any} */ (one), now);
      else if (one.type === "error" && one.ref === this.#followRef) {
        this.events.push({ type: "refused", error: rejected(one) });
      }
    }
  }

  /** @param {View} view @param {number} now */
  #onStatus(view, now) {
    if (this.#checking.has(view.id)) this.#checked([view.id], now);
    const known = this.#open.get(view.id) ?? this.#ended.get(view.id) ?? -1;
    if (view.rev <= known) return;
    this.#open.delete(view.id);
    this.#ended.delete(view.id);
    keep(ended(view) ? this.#ended : this.#open, view);
    this.events.push({ type: "fed", view });
  }

  /** @param {number} now */
  #check(now) {
    const ids = this.#unchecked.splice(0, CHECKED_AT_A_TIME).filter((id) => this.#open.has(id));
    this.#checking = new Set(ids);
    this.#checkDue = ids.length ? now + ANSWER_WITHIN : Infinity;
    if (ids.length) this.say({ subscribe: ids });
    else if (this.#unchecked.length) this.#check(now);
  }

  /** @param {string[]} ids @param {number} now */
  #checked(ids, now) {
    for (const id of ids) this.#checking.delete(id);
    this.say({ unsubscribe: ids });
    if (!this.#checking.size) this.#check(now);
  }
}

/** @param {Map<string, number>} map @param {View} view */
function keep(map, view) {
  map.set(view.id, view.rev);
  const [oldest] = map.keys();
  if (map.size > KEPT) map.delete(/** @type {string} */ (oldest));
}
