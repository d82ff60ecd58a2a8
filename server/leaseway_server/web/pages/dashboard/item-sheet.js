/**
 * One item in full, beside its queue: its times, progress, faults and attempts, why it is where it is, what it holds,
 * and what may be done to it. Live: its changes are told by the monitor socket.
 */

import { ConnectionLost, UnknownItem } from "../../_client/errors.js";
import { age } from "./age.js";
import { attemptTable } from "./attempts.js";
import { element, fill } from "./element.js";
import { ItemActions } from "./item-actions.js";
import { say } from "./news.js";
import { linkTo } from "./place.js";
import { serverNow } from "./server-clock.js";
import { timeline } from "./timeline.js";
import { shown } from "./value.js";
import { ENDED } from "./words.js";

export class ItemSheet {
  #screen;
  #queue;
  #id;
  #failed;
  #leave = new AbortController();
  #view = null;
  #attempts = [];
  #actions;
  #dialog;
  #badge = element("span", { class: "badge" });
  #progress = element("progress", { max: "100", "aria-label": "Progress" });
  #fault = element("p", { class: "fault", role: "alert" });
  #parts = Object.fromEntries(["times", "why", "facts", "progress", "error", "attempts", "result", "item"].map((name) => [name, element("div", { "data-part": name })]));

  constructor(screen, queue, id, signal, failed) {
    this.#screen = screen;
    this.#queue = queue;
    this.#id = id;
    this.#failed = failed;
    signal.addEventListener("abort", () => this.close(), { signal: this.#leave.signal });
    const rights = new Set(["admin", "post"].filter((right) => screen.may(right)));
    this.#actions = new ItemActions(queue, id, rights, (view) => this.#changed(view), () => this.#gone("It is deleted."));
    this.#dialog = this.#lay();
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    void this.#follow();
    void this.#fetchItem();
  }

  close() {
    this.#leave.abort();
    this.#dialog.close(); // Which gives the focus back to where it was.
    this.#dialog.remove();
  }

  /** Something changed in the queue, so that the reasons may be others; a retry of one that ended is not told. */
  async refresh() {
    if (!this.#view) return;
    try {
      const view = await this.#ask("", { stamp: "false" }); // Who looks must not shorten its life (PROTOCOL.md §3).
      if (isNewer(view, this.#view)) this.#changed(view);
      else if (!ENDED.has(view.status)) await this.#explain();
    } catch (error) {
      this.#wentWrong(error);
    }
  }

  #lay() {
    const leave = () => {
      location.hash = linkTo(this.#screen.name);
    };
    const part = (name, title) => element("section", { hidden: true }, element("h3", {}, title), this.#parts[name]);
    return element(
      "dialog",
      { class: "side", "aria-labelledby": "item", oncancel: leave },
      element(
        "header",
        { class: "row spread" },
        element("h2", { id: "item" }, element("span", { class: "id" }, this.#id), " ", this.#badge),
        element("button", { class: "quiet", type: "button", autofocus: true, onclick: leave }, "Close"),
      ),
      this.#fault,
      this.#progress,
      this.#actions.root,
      part("why", "Why it is where it is"),
      part("times", "Its times"),
      part("error", "Last fault"),
      part("attempts", "Attempts that ended without a result"),
      part("progress", "Progress"),
      part("result", "Result"),
      part("item", "The item"),
      part("facts", "More of it"),
    );
  }

  #put(name, ...content) {
    const there = content.some((each) => each !== null);
    this.#parts[name].parentElement.hidden = !there;
    fill(this.#parts[name], content);
  }

  // What is told

  async #follow() {
    try {
      for await (const view of this.#queue.watch([this.#id], { signal: this.#leave.signal })) this.#show(view);
    } catch (error) {
      this.#wentWrong(error);
    }
  }

  /** An answer told a newer state; of one that had ended it is watched anew. */
  #changed(view) {
    const watched = this.#view && !ENDED.has(this.#view.status);
    this.#show(view);
    this.#screen.changed();
    if (!watched && !ENDED.has(view.status)) void this.#follow();
  }

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
    this.#showTimes();
    const causes = ({ status, attempts, failures, losses }) => [status, attempts, failures, losses].join();
    if (!before || causes(before) !== causes(view)) void this.#explain().catch((error) => this.#wentWrong(error));
  }

  #showLabel(view, before) {
    this.#badge.textContent = view.label;
    this.#badge.dataset.status = view.status;
    if (before) say(`${this.#id}: ${view.label}`);
  }

  #showProgress({ status, progress }) {
    const percent = progress?.percent;
    this.#progress.hidden = status !== "processing" && status !== "finished";
    if (status === "finished") this.#progress.value = 100;
    else if (typeof percent === "number") this.#progress.value = percent;
    else this.#progress.removeAttribute("value"); // At work, and nobody says how far.
    this.#put("progress", progress === null ? null : shown(progress));
  }

  #showTimes() {
    this.#put("times", timeline(this.#view, this.#attempts, serverNow()));
  }

  // What is asked

  #ask(path, query = {}) {
    return this.#queue.ask("GET", `items/${this.#id}${path}`, { query, signal: this.#leave.signal });
  }

  /** Why it is there, and what became of its attempts. */
  async #explain() {
    const [why, { attempts }] = await Promise.all([this.#ask("/why"), this.#ask("/attempts")]);
    this.#attempts = attempts;
    this.#showTimes();
    this.#put("attempts", attempts.length ? attemptTable(attempts) : null);
    const reasons = why.reasons.map(({ code, message }) => element("li", { "data-code": code }, message));
    const { status, updatedAt } = this.#view;
    const otherwise = why.waiting ? "Nothing but its turn is in the way." : `It is ${status}.`;
    this.#put("why", reasons.length ? element("ul", {}, reasons) : element("p", {}, otherwise), element("p", { class: "hint" }, "Last change ", age(updatedAt)));
  }

  async #fetchItem() {
    try {
      this.#put("item", shown(await this.#ask("/item")));
    } catch (error) {
      this.#wentWrong(error);
    }
  }

  #wentWrong(error) {
    if (this.#leave.signal.aborted || error instanceof ConnectionLost) return; // That is told already.
    if (error instanceof UnknownItem) this.#gone("There is no such item, or it is not yours to see.");
    else if (error.name === "Rejected") this.#fault.textContent = error.message;
    else this.#failed(error);
  }

  /** What was seen of it stays to be read. */
  #gone(text) {
    this.#leave.abort();
    this.#fault.textContent = text;
    this.#actions.root.hidden = true;
    this.#badge.textContent = "gone";
    this.#screen.changed();
  }
}

/** A smaller `rev` is stale; a label may change without one, where a time passes (PROTOCOL.md §3). */
function isNewer(view, before) {
  return view.rev > before.rev || (view.rev === before.rev && view.label !== before.label);
}

function factsOf(view) {
  const { key, postedBy, priority, worker, attempts, failures, losses, maxAttempts, meta } = view;
  const facts = { key, postedBy, priority, worker, attempts, failures: `${failures} of ${maxAttempts}`, losses, meta };
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== null));
}
