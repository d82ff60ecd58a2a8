/** The rows of a table of items, one each by its id; a row stays the same node for as long as its item is listed. */

import { age } from "./age.js";
import { element, fill, refill } from "./element.js";
import { linkTo } from "./place.js";

/** @typedef {import("../../_client/protocol.js").View} View */

const COLUMNS = ["item", "status", "posted", "by", "key", "attempts", "worker"];

export class ItemRows {
  #name;
  /** @type {Map<string, Row>} */
  #rows = new Map();
  #body = element("tbody");
  #none;
  root;

  /**
   * @param {string} name  the queue's
   * @param {string} labelledby  the id of the table's heading
   * @param {string} nothing  what is said where there are none
   */
  constructor(name, labelledby, nothing) {
    this.#name = name;
    this.#none = element("p", { class: "hint" }, nothing);
    const head = element("tr", {}, COLUMNS.map((column) => element("th", { scope: "col" }, column)));
    this.root = element(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": labelledby },
      element("table", {}, element("thead", {}, head), this.#body),
      this.#none,
    );
  }

  /**
   * These and no others, in this order.
   *
   * @param {View[]} views
   * @param {boolean} [isAll]  whether it is known that there are no more
   */
  show(views, isAll = true) {
    const before = this.#rows;
    const rowOf = (/** @type {View} */ view) => before.get(view.id) ?? new Row(this.#name, view.id);
    this.#rows = new Map(views.map((view) => [view.id, rowOf(view).show(view)]));
    refill(this.#body, [...this.#rows.values()].map((row) => row.root));
    this.#none.hidden = views.length > 0 || !isAll;
  }
}

class Row {
  root;
  #rev = -1;
  #cells = COLUMNS.slice(1).map((column) => element("td", { "data-column": column }));

  /** @param {string} queue @param {string} id */
  constructor(queue, id) {
    const link = element("a", { class: "id", href: linkTo(queue, id) }, id);
    this.root = element("tr", { "data-id": id }, element("th", { scope: "row" }, link), this.#cells);
  }

  /** @param {View} view */
  show(view) {
    if (view.rev === this.#rev && view.label === this.root.dataset.label) return this;
    this.#rev = view.rev;
    this.root.dataset.label = view.label;
    const { failures, losses } = view;
    const charged = [failures && `${failures} failed`, losses && `${losses} lost`].filter(Boolean).join(", ");
    const shown = [
      element("span", { class: "badge", "data-status": view.status }, view.label),
      age(view.postedAt),
      view.postedBy ?? "nobody",
      view.key ?? "",
      `${view.attempts}${charged && ` (${charged})`}`,
      view.worker ?? "",
    ];
    shown.forEach((content, at) => fill(this.#cells[at], content));
    return this;
  }
}
