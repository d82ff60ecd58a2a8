/** How many items there are by status, and since when the oldest waits. */

import { age } from "./age.js";
import { element, fill } from "./element.js";
import { STATUSES, number } from "./words.js";

export class Figures {
  root = element("section", { "aria-label": "Figures", class: "figures" });
  #choose;
  #values = new Map();
  #workers = element("dd");
  #oldest = element("dd");

  /** `choose` is told a status that was pressed; null where there is no list to show it in. */
  constructor(facts, choose) {
    this.#choose = choose;
    if (facts.counts) this.#lay();
    else fill(this.root, element("p", { class: "hint" }, "Here each sees its own items, so there are no figures of all."));
    this.#show(facts.counts);
    this.found(facts);
  }

  /** The server told the figures. */
  told({ counts, workers }) {
    this.#show(counts);
    this.#workers.textContent = number(workers);
  }

  found({ oldestReadyAt }) {
    fill(this.#oldest, oldestReadyAt ? age(oldestReadyAt) : "none");
  }

  #lay() {
    const figure = (name, value) => element("div", { class: "figure" }, element("dt", {}, name), value);
    fill(
      this.root,
      element(
        "dl",
        {},
        STATUSES.map((status) => this.#status(status, figure)),
        figure("workers", this.#workers),
        figure("oldest ready", this.#oldest),
      ),
    );
  }

  #status(status, figure) {
    const value = element("dd", { "data-status": status }, "0");
    this.#values.set(status, value);
    const name = this.#choose
      ? element("button", { class: "plain", type: "button", title: `List what is ${status}`, onclick: () => this.#choose(status) }, status)
      : status;
    return figure(name, value);
  }

  #show(counts) {
    for (const [status, value] of this.#values) value.textContent = number(counts[status] ?? 0);
  }
}
