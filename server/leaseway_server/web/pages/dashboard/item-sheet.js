/**
 * One item in full, beside its queue: its times, progress, faults and attempts, why it is where it is, what it holds,
 * and what may be done to it. Live: its changes are told by the monitor socket.
 */

import { ConnectionLost, Rejected, UnknownItem } from "../../_client/errors.js";
import { age } from "./age.js";
import { attemptTable } from "./attempts.js";
import { element, fill } from "./element.js";
import { ItemActions } from "./item-actions.js";
import { linkTo } from "./place.js";
import { serverNow } from "./server-clock.js";
import { timeline } from "./timeline.js";
import { shown } from "./value.js";
import { ENDED } from "./words.js";

/** @typedef {import("../../_client/protocol.js").View} View */
/** @typedef {typeof PARTS[number]} PartName */

const PARTS = /** @type {const} */ (["times", "why", "facts", "progress", "error", "attempts", "result", "item"]);

export class ItemSheet {
  #screen;
  #queue;
  #id;
  #failed;
  #leave = new AbortController();
  /** @type {View | null} */
  #view = null;
  /** @type {import("./attempts.js").Attempt[]} */
  #attempts = [];
  #actions;
  #dialog;
  #badge = element("span", { class: "badge" });
  #progress = element("progress", { max: "100", "aria-label": "Progress" });
  #fault = element("p", { class: "fault", role: "alert" });
  /** What a screen reader says at once; while the dialog is open, it hears nothing outside of it. */
  #news = element("p", { class: "unseen", role: "status" });
  /** @type {Record<string, HTMLElement>} */
  #parts = Object.fromEntries(PARTS.map((name) => [name, element("div", { "data-part": name })]));

  /**
   * @param {import("./queue-screen.js").QueueScreen} screen
   * @param {import("../../_client/client.js").Queue} queue
   * @param {string} id
   * @param {AbortSignal} signal
   * @param {(error: Error) => void} failed  told what the screen cannot go on with
   */
  constructor(screen, queue, id, signal, failed) {
    this.#screen = screen;
    this.#queue = queue;
    this.#id = id;
    this.#failed = failed;
    signal.addEventListener("abort", () => this.close(), { signal: this.#leave.signal });
    const rights = new Set(["admin", "post"].filter((right) => screen.may(right)));
    const gone = () => this.#gone("It is deleted.");
    this.#actions = new ItemActions(queue, id, rights, (view) => this.#changed(view), gone, this.#leave.signal);
    this.#dialog = this.#lay();
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    void this.#follow();
    void this.#fetchItem();
    if (!queue.online) void this.refresh(); // It may never be: then this is all that is told.
  }

  close() {
    this.#leave.abort();
    this.#dialog.close(); // Which gives the focus back to where it was.
    this.#dialog.remove();
  }

  /** Something changed in the queue, so that the reasons may be others; a retry of one that ended is not told. */
  async refresh() {
    if (!this.#view && this.#queue.online) return; // It is about to be told.
    try {
      const view = await this.#ask("", { stamp: "false" }); // Who looks must not shorten its life (PROTOCOL.md §3).
      if (!this.#view) this.#show(view);
      else if (isNewer(view, this.#view)) this.#changed(view);
      else if (!ENDED.has(view.status)) await this.#explain();
    } catch (error) {
      this.#wentWrong(error);
    }
  }

  #lay() {
    const leave = () => {
      location.hash = linkTo(this.#screen.name);
    };
    return element(
      "dialog",
      { class: "side", "aria-labelledby": "item", oncancel: leave },
      element(
        "header",
        { class: "row spread" },
        element("h2", { id: "item" }, element("span", { class: "id" }, this.#id), " ", this.#badge),
        element("button", { class: "quiet", type: "button", autofocus: true, onclick: leave }, "Close"),
      ),
      this.#news,
      this.#fault,
      this.#progress,
      this.#actions.root,
      this.#part("why", "Why it is where it is"),
      this.#part("times", "Its times"),
      this.#part("error", "Last fault"),
      this.#part("attempts", "Attempts that ended without a result"),
      this.#part("progress", "Progress"),
      this.#part("result", "Result"),
      this.#part("item", "The item"),
      this.#part("facts", "More of it"),
    );
  }

  /** @param {PartName} name @param {string} title */
  #part(name, title) {
    return element("section", { hidden: true }, element("h3", {}, title), this.#parts[name]);
  }

  /** A part that has nothing in it is hidden. @param {PartName} name @param {(Node | null)[]} content */
  #put(name, ...content) {
    const part = this.#parts[name];
    /** @type {HTMLElement} */ (part.parentElement).hidden = content.every((each) => each === null);
    fill(part, content);
  }

  // What is told

  async #follow() {
    try {
      for await (const view of this.#queue.watch([this.#id], { signal: this.#leave.signal })) this.#show(view);
    } catch (error) {
      this.#wentWrong(error);
    }
  }

  /** An answer told a newer state; of one that had ended it is watched anew. @param {View} view */
  #changed(view) {
    const watched = this.#view && !ENDED.has(this.#view.status);
    this.#show(view);
    this.#screen.changed();
    if (!watched && !ENDED.has(view.status)) void this.#follow();
  }

  /** @param {View} view */
  #show(view) {
    if (this.#view && !isNewer(view, this.#view)) return;
    const before = this.#view;
    this.#view = view;
    if (before?.label !== view.label) this.#showLabel(view, before);
    this.#actions.show(view);
    this.#showProgress(view);
    this.#put("error", view.error && shown(view.error));
    this.#put("result", view.status === "finished" ? shown(view.result) : null);
    this.#put("facts", shown(factsOf(view)));
    this.#showTimes(view);
    if (!before || causeOf(before) !== causeOf(view)) void this.#explain().catch((error) => this.#wentWrong(error));
  }

  /** @param {View} view @param {View | null} before */
  #showLabel(view, before) {
    this.#badge.textContent = view.label;
    this.#badge.dataset.status = view.status;
    if (before) this.#news.textContent = `${this.#id}: ${view.label}`;
  }

  /** @param {View} view */
  #showProgress({ status, progress }) {
    const percent = progress?.percent;
    this.#progress.hidden = status !== "processing" && status !== "finished";
    if (status === "finished") this.#progress.value = 100;
    else if (typeof percent === "number") this.#progress.value = percent;
    else this.#progress.removeAttribute("value"); // At work, and nobody says how far.
    this.#put("progress", progress === null ? null : shown(progress));
  }

  /** @param {View} view */
  #showTimes(view) {
    this.#put("times", timeline(view, this.#attempts, serverNow()));
  }

  // What is asked

  /** @param {string} path @param {Record<string, string>} [query] */
  #ask(path, query = {}) {
    return this.#queue.ask("GET", `items/${this.#id}${path}`, { query, signal: this.#leave.signal });
  }

  /** Why it is there, and what became of its attempts. */
  async #explain() {
    const [told, { attempts }] = await Promise.all([this.#ask("/why"), this.#ask("/attempts")]);
    const view = /** @type {View} */ (this.#view); // The newest by now.
    this.#attempts = attempts;
    this.#showTimes(view);
    this.#put("attempts", attempts.length ? attemptTable(attempts) : null);
    /** @type {{code: string, message: string}[]} */
    const given = told.reasons;
    const reasons = given.map(({ code, message }) => element("li", { "data-code": code }, message));
    const otherwise = told.waiting ? "Nothing but its turn is in the way." : `It is ${view.status}.`;
    const why = reasons.length ? element("ul", {}, reasons) : element("p", {}, otherwise);
    this.#put("why", why, element("p", { class: "hint" }, "Told ", age(serverNow()), ", last change ", age(view.updatedAt)));
  }

  async #fetchItem() {
    try {
      this.#put("item", shown(await this.#ask("/item")));
    } catch (error) {
      this.#wentWrong(error);
    }
  }

  /** @param {unknown} error */
  #wentWrong(error) {
    if (this.#leave.signal.aborted || error instanceof ConnectionLost) return; // That is told already.
    if (error instanceof UnknownItem) this.#gone("There is no such item, or it is not yours to see.");
    else if (error instanceof Rejected) this.#fault.textContent = error.message;
    else this.#failed(/** @type {Error} */ (error));
  }

  /** What was seen of it stays to be read. @param {string} text */
  #gone(text) {
    this.#leave.abort();
    this.#fault.textContent = text;
    this.#actions.root.hidden = true;
    this.#badge.textContent = "gone";
    this.#screen.changed();
  }
}

/**
 * A smaller `rev` is stale; a label may change without one, where a time passes (PROTOCOL.md §3).
 *
 * @param {View} view
 * @param {View} before
 */
function isNewer(view, before) {
  return view.rev > before.rev || (view.rev === before.rev && view.label !== before.label);
}

/** What its reasons hang on. @param {View} view */
function causeOf({ status, attempts, failures, losses }) {
  return [status, attempts, failures, losses].join();
}

/** @param {View} view */
function factsOf(view) {
  const { key, postedBy, priority, worker, attempts, failures, losses, maxAttempts, meta } = view;
  const facts = { key, postedBy, priority, worker, attempts, failures: `${failures} of ${maxAttempts}`, losses, meta };
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== null));
}
