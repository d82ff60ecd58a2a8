/**
 * The items of a queue, newest first, by filter and page: for administrators.
 *
 * It holds one page at a time and asks for the next by the server's cursor, so that a million items are no more than 25.
 */

import { Rejected } from "../../_client/errors.js";
import { Bulk } from "./bulk.js";
import { element } from "./element.js";
import { ItemRows } from "./item-rows.js";
import { LABELS, STATUSES, faultText } from "./words.js";

/** @typedef {import("../../_client/protocol.js").View} View */

const ON_A_PAGE = 25;
/** A request looks at a bounded number of items (PROTOCOL.md §5); so many are made before the person is asked. */
const LOOKS = 20;

export class ItemTable {
  root;
  #queue;
  #rows;
  #bulk;
  #status = choice("status", STATUSES);
  #label = choice("label", LABELS);
  #poster = element("input", { name: "postedBy", autocomplete: "off", spellcheck: "false", maxlength: "200" });
  #key = element("input", { name: "key", autocomplete: "off", spellcheck: "false", maxlength: "200" });
  #newer = element("button", { class: "quiet", type: "button", onclick: () => this.#turn(-1) }, "Newer");
  #older = element("button", { class: "quiet", type: "button", onclick: () => this.#turn(1) }, "Older");
  #where = element("p", { class: "hint", role: "status" });
  #fault = element("p", { class: "fault", role: "alert" });
  /** What is listed now, and what `Bulk` means: not what is being typed. @type {import("./bulk.js").Filter} */
  #filter = {};
  /** Where each page begins that was seen, and which of them is shown. */
  #cursors = [""];
  #page = 0;
  /** The number of the newest question: an answer to an older one is stale. */
  #asked = 0;

  /** @param {import("../../_client/client.js").Queue} queue @param {string} name  its @param {AbortSignal} signal */
  constructor(queue, name, signal) {
    this.#queue = queue;
    this.#rows = new ItemRows(name, "items", "There is no such item.");
    this.#bulk = new Bulk(queue, () => this.#filter, () => this.#again(), signal);
    this.root = element(
      "section",
      { class: "sheet wide", "aria-labelledby": "items" },
      element("h2", { id: "items" }, "Items"),
      this.#filters(),
      this.#fault,
      this.#rows.root,
      element("div", { class: "row spread" }, this.#where, element("div", { class: "row" }, this.#newer, this.#older)),
      this.#bulk.root,
    );
  }

  /** Lists what has this status and nothing else. @param {string} status */
  only(status) {
    this.#status.value = status;
    for (const other of [this.#label, this.#poster, this.#key]) other.value = "";
    this.#first();
    this.root.scrollIntoView({ block: "start" });
  }

  async refresh() {
    const asked = ++this.#asked;
    this.#fault.textContent = "";
    try {
      const { items, next } = await this.#look(this.#cursors[this.#page]);
      if (asked === this.#asked) this.#show(items, next);
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      this.#fault.textContent = faultText(error);
    }
  }

  #filters() {
    const changed = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#first();
    };
    return element(
      "form",
      { class: "row filters", role: "search", "aria-label": "Which items", onsubmit: changed, onchange: changed },
      element("label", {}, "Status", this.#status),
      element("label", {}, "Label", this.#label),
      element("label", {}, "Poster", this.#poster),
      element("label", {}, "Key", this.#key),
      element("button", { class: "quiet" }, "List"),
    );
  }

  /**
   * A page that has something, or the last one of what was looked at.
   *
   * @param {string} cursor
   * @returns {Promise<{items: View[], next: string | null}>}
   */
  async #look(cursor) {
    for (let look = 1, at = cursor; ; look += 1) {
      const query = { ...this.#filter, limit: String(ON_A_PAGE), results: "false", ...(at && { cursor: at }) };
      const page = await this.#queue.ask("GET", "items", { query });
      if (page.items.length || !page.next || look === LOOKS) return page;
      at = page.next;
    }
  }

  /** @param {View[]} items @param {string | null} next */
  #show(items, next) {
    this.#rows.show(items, !next);
    this.#cursors.length = this.#page + 1;
    if (next) this.#cursors.push(next);
    this.#newer.disabled = this.#page === 0;
    this.#older.disabled = !next;
    const isEmpty = next && !items.length;
    const place = `Page ${this.#page + 1}${next ? "" : ", the last"}`;
    this.#where.textContent = isEmpty ? "Nothing among the newest items so far. Older looks further." : place;
  }

  /** @param {number} by  pages */
  #turn(by) {
    this.#page += by;
    this.#again();
  }

  #first() {
    const said = [this.#status, this.#label, this.#poster, this.#key].map(({ name, value }) => [name, value]);
    this.#filter = Object.fromEntries(said.filter(([, value]) => value));
    this.#page = 0;
    this.#cursors = [""];
    this.#again();
  }

  #again() {
    this.refresh().catch((error) => (this.#fault.textContent = error.message));
  }
}

/** @param {string} name @param {string[]} values */
function choice(name, values) {
  return element("select", { name }, element("option", { value: "" }, "any"), values.map((value) => element("option", {}, value)));
}
