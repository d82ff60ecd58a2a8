/** How many items there are by status, and since when the oldest waits. */

import { age } from "./age.js";
import { element, fill } from "./element.js";
import { STATUSES, number } from "./words.js";

export class Figures {
  root = element("section", { "aria-label": "Figures", class: "figures" });
  #choose;
  /** Where each status is shown. @type {Map<string, HTMLElement>} */
  #values = new Map();
  #workers = element("dd");
  #oldest = element("dd");

  /**
   * @param {import("./queue-screen.js").Facts} facts
   * @param {((status: string) => void) | null} choose  told a status that was pressed; null where there is no list
   */
  constructor(facts, choose) {
    this.#choose = choose;
    if (facts.counts) this.#lay();
    else fill(this.root, element("p", { class: "hint" }, "Here each sees its own items, so there are no figures of all."));
    if (facts.counts) this.#show(facts.counts);
    this.found(facts);
  }

  /** The server told the figures. @param {import("../../_client/client.js").Stats} stats */
  told({ counts, workers }) {
    this.#show(counts);
    this.#workers.textContent = number(workers);
  }

  /** @param {import("./queue-screen.js").Facts} facts */
  found({ oldestReadyAt }) {
    fill(this.#oldest, oldestReadyAt ? age(oldestReadyAt) : "none");
  }

  #lay() {
    fill(
      this.root,
      element(
        "dl",
        {},
        STATUSES.map((status) => this.#status(status)),
        figure("workers", this.#workers),
        figure("oldest ready", this.#oldest),
      ),
    );
  }

  /** @param {string} status */
  #status(status) {
    const value = element("dd", { "data-status": status }, "0");
    this.#values.set(status, value);
    const choose = this.#choose;
    if (!choose) return figure(status, value);
    const pressed = { class: "plain", type: "button", title: `List what is ${status}`, onclick: () => choose(status) };
    return figure(element("button", pressed, status), value);
  }

  /** @param {Record<string, number>} counts */
  #show(counts) {
    for (const [status, value] of this.#values) {
      const count = counts[status] ?? 0;
      value.textContent = number(count);
      value.classList.toggle("none", count === 0);
    }
  }
}

/** @param {Node | string} name @param {Node} value */
function figure(name, value) {
  return element("div", { class: "figure" }, element("dt", {}, name), value);
}
