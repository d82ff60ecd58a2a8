/**
 * One work socket without I/O: leases, claims and reports, over as many sockets as it takes.
 *
 * Messages go in; messages to send and events come out (PROTOCOL.md §4). It decides what a worker says and when; it
 * starts no handler, opens no socket and reads no clock.
 */

import { LeaseLost, Rejected } from "./errors.js";
import { CLAIM_WAIT_MS, Claims, Lease, PAUSE } from "./leases.js";
import { Mailbox } from "./mailbox.js";
import { refusedOf, releaseOf } from "./outcome.js";
import { CLIENT, NOBODY, PASSING, encode, flatten, rejected } from "./protocol.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./outcome.js").Outcome} Outcome */

/**
 * Something said about a lease, until it is answered. `due`: infinity while an answer is awaited; otherwise when to say
 * it again.
 *
 * @typedef {{lease: Lease, verb: string, text: string, due: number}} Report
 */

/**
 * `start`: a lease came. `stop`: it is gone, the outcome of its handler is of no use. `answered`: a progress record was
 * stored (`error` is null) or will never be. `settled`: the last report of a lease was answered.
 *
 * @typedef {{type: "start", lease: Lease}
 *     | {type: "stop", lease: Lease, reason: string}
 *     | {type: "answered", ref: number, error: Error | null}
 *     | {type: "settled", lease: Lease, verb: string, accepted: boolean, error: Error | null}} WorkerEvent
 */

const ENDING = new Set(["result", "fail", "release"]);

export class WorkerState extends Mailbox {
  interested = true;
  #worker;
  #labels;
  #slots;
  /** @type {Message} */
  #claim = { waitMs: CLAIM_WAIT_MS };
  #online = false;
  #draining = false;
  #running = 0;
  /** @type {Map<string, Lease>} */
  #leases = new Map();
  /** Those that an earlier socket held. @type {Map<string, Lease>} */
  #resuming = new Map();
  #resume = { ref: 0, due: Infinity };
  #unclaim = { ref: 0, due: Infinity };
  #claims = new Claims();
  /** @type {Map<number, Report>} */
  #reports = new Map();

  /**
   * Throws `Rejected` for criteria or labels that are no JSON.
   *
   * @param {string} worker  its name
   * @param {number} slots  how many handlers may run at once
   * @param {{criteria?: Message, labels?: Message}} [more]
   */
  constructor(worker, slots, { criteria, labels } = {}) {
    super();
    this.#worker = worker;
    this.#slots = slots;
    this.#labels = labels;
    if (criteria !== undefined) this.#claim.criteria = criteria;
    encode({ claim: this.#claim });
    this.hello();
  }

  // What the connection asks and tells

  /** Whether leases are held, which must be resumed within `resume_grace` (§6). */
  get urgent() {
    return this.#leases.size > 0;
  }

  /** When the next renewal, repeated report or claim is due, at the earliest. */
  get deadline() {
    if (!this.#online) return Infinity;
    let due = Math.min(this.#resume.due, this.#unclaim.due, this.#free > 0 ? this.#claims.notBefore : Infinity);
    for (const report of this.#reports.values()) due = Math.min(due, report.due);
    for (const lease of this.#leases.values()) if (!lease.settled) due = Math.min(due, lease.renewAt);
    return due;
  }

  /** Whether nothing runs, no item may be on its way to a claim, and every last report was answered. */
  get quiet() {
    if (this.#running || this.#claims.size) return false;
    return ![...this.#reports.values()].some((report) => ENDING.has(report.verb));
  }

  /** Names the worker for the claims of this socket, so that they can be resumed. */
  hello() {
    const hello = { worker: this.#worker, client: CLIENT, cancel: true, batch: true };
    return encode({ hello: this.#labels === undefined ? hello : { ...hello, labels: this.#labels } });
  }

  probe() {
    return encode({ renew: { id: NOBODY, attempts: 1 }, ref: this.nextRef() });
  }

  /**
   * Resumes, then says again what had no answer, then claims; the server keeps that order (§4).
   *
   * @param {Message} hello
   * @param {number} now
   */
  opened(hello, now) {
    this.#online = true;
    this.maxBytes = hello.maxMessageBytes;
    this.#resuming = new Map(this.#leases);
    this.#sayResume();
    for (const report of this.#reports.values()) this.#sayReport(report);
    for (const lease of this.#leases.values()) lease.renewLater(now);
    this.#claimFreeSlots(now);
  }

  /** Claims and renewals die with their socket; leases and other reports are kept for the next one. */
  lost() {
    this.#online = false;
    this.outgoing = [];
    this.#claims.lost();
    this.#unclaim.due = this.#resume.due = Infinity;
    for (const [ref, report] of this.#reports) if (report.verb === "renew") this.#reports.delete(ref);
  }

  /** Renews leases, repeats reports and claims, each when it is due. @param {number} now */
  tick(now) {
    if (!this.#online) return;
    if (this.#resume.due <= now) this.#sayResume();
    if (this.#unclaim.due <= now) this.#sayUnclaim();
    for (const report of this.#reports.values()) if (report.due <= now) this.#sayReport(report);
    for (const lease of this.#leases.values()) {
      if (lease.renewAt > now || lease.settled) continue;
      this.#report(lease, "renew", {});
      lease.renewLater(now);
    }
    this.#claimFreeSlots(now);
  }

  /** Throws `Rejected` where the server will have no claim of ours. @param {Message} message @param {number} now */
  received(message, now) {
    for (const one of flatten(message)) {
      if (one.type === "item") this.#onItem(one, now);
      else if (one.type === "empty") this.#onEmpty(one, now);
      else if (one.type === "resume-ack") this.#onResumeAck(one);
      else if (one.type === "cancel") this.#lose(this.#leases.get(one.id), one.reason ?? "cancelled");
      else if (one.type === "error") this.#onError(one, now);
      else if (typeof one.type === "string" && one.type.endsWith("-ack")) this.#onAck(one, now);
    }
  }

  // What the worker says

  /**
   * Says a progress record and gives its number; `answered` follows. Throws `LeaseLost`, or `Rejected` for what cannot
   * be sent.
   *
   * @param {Lease} lease
   * @param {any} value
   */
  progress(lease, value) {
    if (this.#leases.get(lease.id) !== lease || lease.settled) throw new LeaseLost(`${lease.id} is no longer ours`);
    return this.#report(lease, "progress", { value });
  }

  /**
   * The handler of a lease ended, so. Frees the slot.
   *
   * @param {Lease} lease
   * @param {Outcome} outcome
   * @param {number} now
   */
  settle(lease, outcome, now) {
    this.#running -= 1;
    if (this.#leases.get(lease.id) === lease) this.#end(lease, outcome);
    this.#claimFreeSlots(now);
  }

  /** Claims nothing from now on, withdraws the claims that wait, gives back at once what they still bring. */
  drain() {
    if (this.#draining) return;
    this.#draining = true;
    if (this.#online) this.#sayUnclaim();
  }

  // What the server said

  /** @param {Message} message @param {number} now */
  #onItem(message, now) {
    this.#claims.item(message.ref);
    const lease = new Lease(message, now);
    this.#lose(this.#leases.get(lease.id), "claimed again");
    this.#leases.set(lease.id, lease);
    if (this.#draining) {
      this.#end(lease, releaseOf());
      return;
    }
    this.#running += 1;
    this.events.push({ type: "start", lease });
  }

  /** @param {Message} message @param {number} now */
  #onEmpty(message, now) {
    this.#claims.empty(message.ref, now);
    this.#claimFreeSlots(now);
  }

  /** @param {Message} message @param {number} now */
  #onAck(message, now) {
    const report = this.#reports.get(message.ref);
    if (!report) return; // It was taken back with its lease.
    this.#reports.delete(message.ref);
    const { lease, verb } = report;
    if (ENDING.has(verb)) this.#settled(report, message.accepted || message.duplicate === true, message.reason);
    else if (message.accepted) lease.renewLater(now);
    else this.#lose(lease, message.reason ?? "refused");
    if (verb === "progress") this.#answered(message.ref, message.accepted ? null : lost(lease, message.reason));
  }

  /** @param {Message} message */
  #onResumeAck(message) {
    for (const { id, accepted } of message.leases) if (!accepted) this.#loseResumed(this.#resuming.get(id));
  }

  /** One that was claimed again meanwhile is another lease, and is not meant. @param {Lease | undefined} lease */
  #loseResumed(lease) {
    if (lease && this.#leases.get(lease.id) === lease) this.#lose(lease, "not resumed");
  }

  /** @param {Message} message @param {number} now */
  #onError(message, now) {
    const ref = message.ref ?? 0;
    const error = rejected(message);
    const report = this.#reports.get(ref);
    if (PASSING.has(error.code)) this.#refusedForNow(ref, now + PAUSE);
    else if (this.#claims.refused(ref)) throw error;
    else if (report) this.#refused(ref, report, error);
  }

  /** @param {number} ref @param {number} again */
  #refusedForNow(ref, again) {
    const report = this.#reports.get(ref);
    if (this.#claims.refused(ref)) this.#claims.notBefore = again;
    else if (ref === this.#resume.ref) this.#resume.due = again;
    else if (ref === this.#unclaim.ref) this.#unclaim.due = again;
    else if (report) report.due = again;
  }

  /**
   * A report that will never do. A result or a release becomes a fail.
   *
   * @param {number} ref
   * @param {Report} report
   * @param {Rejected} error
   */
  #refused(ref, report, error) {
    this.#reports.delete(ref);
    if (report.verb === "progress") this.#answered(ref, error);
    else if (report.verb === "result" || report.verb === "release")
      this.#end(report.lease, refusedOf(report.verb, error));
    else if (report.verb === "fail") this.#settled(report, false, error.message);
  }

  // The parts

  /** How many more items may be claimed. */
  get #free() {
    return this.#draining ? 0 : this.#slots - this.#running - this.#claims.places;
  }

  /**
   * The lease is gone. What its handler said last may still count (§1, late writers), the rest not.
   *
   * @param {Lease | undefined} lease
   * @param {string} reason
   */
  #lose(lease, reason) {
    if (!lease || lease.settled) return;
    this.#leases.delete(lease.id);
    this.events.push({ type: "stop", lease, reason });
    for (const [ref, report] of this.#reports) {
      if (report.lease !== lease) continue;
      this.#reports.delete(ref);
      if (report.verb === "progress") this.#answered(ref, lost(lease, reason));
    }
  }

  /** @param {Lease} lease @param {Outcome} outcome */
  #end(lease, outcome) {
    lease.settled = true;
    try {
      this.#report(lease, outcome.verb, outcome.members);
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      const refused = refusedOf(outcome.verb, error);
      this.#report(lease, refused.verb, refused.members);
    }
  }

  /** @param {Report} report @param {boolean} accepted @param {string} [reason] */
  #settled({ lease, verb }, accepted, reason) {
    if (this.#leases.get(lease.id) === lease) this.#leases.delete(lease.id);
    this.events.push({ type: "settled", lease, verb, accepted, error: accepted ? null : lost(lease, reason) });
  }

  /** @param {number} ref @param {Error | null} error */
  #answered(ref, error) {
    this.events.push({ type: "answered", ref, error });
  }

  /** The fence is always said. @param {Lease} lease @param {string} verb @param {Message} members */
  #report(lease, verb, members) {
    const ref = this.nextRef();
    const text = encode({ [verb]: { id: lease.id, attempts: lease.attempts, ...members }, ref }, this.maxBytes);
    /** @type {Report} */
    const report = { lease, verb, text, due: Infinity };
    this.#reports.set(ref, report);
    if (this.#online) this.#sayReport(report);
    return ref;
  }

  /** @param {Report} report */
  #sayReport(report) {
    report.due = Infinity;
    this.outgoing.push(report.text);
  }

  /** Asks for every lease that an earlier socket held and that was not lost since. */
  #sayResume() {
    this.#resume.due = Infinity;
    const held = [...this.#resuming.values()].filter((lease) => this.#leases.get(lease.id) === lease);
    const leases = held.map(({ id, attempts }) => ({ id, attempts }));
    if (leases.length) this.#resume.ref = this.say({ resume: { worker: this.#worker, leases } });
  }

  #sayUnclaim() {
    this.#unclaim.due = Infinity;
    if (this.#claims.size) this.#unclaim.ref = this.say({ unclaim: true });
  }

  /** @param {number} now */
  #claimFreeSlots(now) {
    const free = this.#free;
    if (!this.#online || free <= 0 || now < this.#claims.notBefore) return;
    const ref = this.say({ claim: free === 1 ? this.#claim : { ...this.#claim, count: free } });
    this.#claims.said(ref, free, now);
  }
}

/** @param {Lease} lease @param {string} [reason] */
function lost(lease, reason) {
  return new LeaseLost(`${lease.id}: ${reason ?? "no longer ours"}`);
}
