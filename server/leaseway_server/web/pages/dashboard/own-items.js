/**
 * The items of who is no administrator: what this page posted, and, when the person asks for it, all that is theirs.
 *
 * Not by itself: it takes a connection of its own.
 */

import { element } from "./element.js";
import { ItemRows } from "./item-rows.js";
import { linkTo } from "./place.js";

/** @typedef {import("../../_client/protocol.js").View} View */

const MOST = 200;

export class OwnItems {
  root;
  #queue;
  #signal;
  #rows;
  /** The newest state of each, the newest first. @type {Map<string, View>} */
  #views = new Map();
  #fault = element("p", { class: "fault", role: "alert" });
  #id = element("input", { required: true, pattern: "[0-9a-f]{16}", title: "16 digits from 0 to 9 and a to f", autocomplete: "off" });

  /**
   * @param {import("../../_client/client.js").Queue} queue
   * @param {string} name  the queue's
   * @param {AbortSignal} signal
   * @param {boolean} hasName  whether it is somebody in particular who looks, so that there is a `mine`
   */
  constructor(queue, name, signal, hasName) {
    this.#queue = queue;
    this.#signal = signal;
    this.#rows = new ItemRows(name, "own", "Nothing yet. What you post here appears, and changes by itself.");
    this.#rows.show([]);
    const goTo = (/** @type {Event} */ event) => {
      event.preventDefault();
      location.hash = linkTo(name, this.#id.value);
    };
    this.root = element(
      "section",
      { class: "sheet wide", "aria-labelledby": "own" },
      element("h2", { id: "own" }, "Your items"),
      element("form", { class: "row filters", onsubmit: goTo }, element("label", {}, "An item's id", this.#id), element("button", { class: "quiet" }, "Show it")),
      hasName && this.#offerMine(),
      this.#fault,
      this.#rows.root,
    );
  }

  /** An item that was posted here. @param {string} id */
  add(id) {
    void this.#watch([id]);
  }

  #offerMine() {
    const button = element("button", { class: "quiet", type: "button" }, "Show all that is mine");
    button.addEventListener("click", () => {
      button.remove();
      void this.#watch("mine");
    });
    return element("div", { class: "row" }, button);
  }

  /** @param {string[] | "mine"} what */
  async #watch(what) {
    try {
      for await (const view of this.#queue.watch(what, { signal: this.#signal })) this.#show(view);
    } catch (error) {
      if (!this.#signal.aborted) this.#fault.textContent = /** @type {Error} */ (error).message;
    }
  }

  /** @param {View} view */
  #show(view) {
    this.#views.set(view.id, view);
    const newest = [...this.#views.values()].sort((one, other) => other.postedAt - one.postedAt).slice(0, MOST);
    this.#views = new Map(newest.map((each) => [each.id, each]));
    this.#rows.show(newest);
  }
}
