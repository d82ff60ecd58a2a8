/** The rows of a table of items, one each by its id; a row stays the same node for as long as its item is listed. */

import { age } from "./age.js";
import { element, fill, refill } from "./element.js";
import { linkTo } from "./place.js";

const COLUMNS = ["item", "status", "posted", "by", "key", "attempts", "worker"];

export class ItemRows {
  #name;
  #rows = new Map();
  #body = element("tbody");
  #none;
  root;

  /** `name` is the queue's, `labelledby` the id of the table's heading, `nothing` what is said where there are none. */
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

  /** These and no others, in this order. */
  show(views) {
    const rows = new Map(views.map((view) => [view.id, this.#rows.get(view.id) ?? new Row(this.#name, view.id)]));
    for (const view of views) rows.get(view.id).show(view);
    this.#rows = rows;
    refill(this.#body, [...rows.values()].map((row) => row.root));
    this.#none.hidden = views.length > 0;
  }
}

class Row {
  root;
  #rev = -1;
  #cells = COLUMNS.slice(1).map((column) => element("td", { "data-column": column }));

  constructor(queue, id) {
    const link = element("a", { class: "id", href: linkTo(queue, id) }, id);
    this.root = element("tr", { "data-id": id }, element("th", { scope: "row" }, link), this.#cells);
  }

  show(view) {
    if (view.rev === this.#rev && view.label === this.root.dataset.label) return;
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
  }
}
