/** What may be done to an item, as far as the rights and its state go. */

import { confirmed } from "./asking.js";
import { element } from "./element.js";
import { ENDED, RETRIABLE, faultText } from "./words.js";

export class ItemActions {
  #queue;
  #id;
  #rights;
  #done;
  #gone;
  #signal;
  #fault = element("p", { class: "fault", role: "alert" });
  #retry = this.#button("Retry", () => this.#ask("POST", "/retry"));
  #cancel = this.#button("Cancel", () => this.#sure("Cancel this item? Its worker is told to stop.", "Cancel it", "POST", "/cancel"));
  #delete = this.#button("Delete", () => this.#sure("Delete this item with all that belongs to it?", "Delete it", "DELETE", ""));
  root = element("div", {}, element("div", { class: "row" }, this.#retry, this.#cancel, this.#delete), this.#fault);

  /**
   * @param {import("../../_client/client.js").Queue} queue
   * @param {string} id
   * @param {Set<string>} rights
   * @param {(view: import("../../_client/protocol.js").View) => void} done  told the new view
   * @param {() => void} gone  told that the item is no more
   * @param {AbortSignal} signal
   */
  constructor(queue, id, rights, done, gone, signal) {
    this.#queue = queue;
    this.#id = id;
    this.#rights = rights;
    this.#done = done;
    this.#gone = gone;
    this.#signal = signal;
  }

  /**
   * Whose an item is, this page does not know for sure: who may post may try, and the server decides.
   *
   * @param {import("../../_client/protocol.js").View} view
   */
  show({ status }) {
    const admin = this.#rights.has("admin");
    this.#retry.hidden = !(admin && RETRIABLE.has(status));
    this.#cancel.hidden = !((admin || this.#rights.has("post")) && !ENDED.has(status));
    this.#delete.hidden = !(admin && ENDED.has(status));
  }

  /** @param {string} name @param {() => Promise<void>} act */
  #button(name, act) {
    return element("button", { class: "quiet", type: "button", hidden: true, onclick: () => void act() }, name);
  }

  /** @param {string} question @param {string} yes @param {string} method @param {string} path */
  async #sure(question, yes, method, path) {
    if (await confirmed(question, yes, this.#signal)) await this.#ask(method, path);
  }

  /** @param {string} method @param {string} path */
  async #ask(method, path) {
    this.#fault.textContent = "";
    try {
      const view = await this.#queue.ask(method, `items/${this.#id}${path}`);
      if (view) this.#done(view);
      else this.#gone();
    } catch (error) {
      this.#fault.textContent = faultText(/** @type {Error} */ (error));
    }
  }
}
