/** One action on all items that the filter holds: counted first, by the server's dry run, and confirmed by that count. */

import { confirmed } from "./asking.js";
import { element } from "./element.js";
import { faultText, number } from "./words.js";

const ACTIONS = { retry: "Retry", cancel: "Cancel", delete: "Delete" };

export class Bulk {
  #queue;
  #filter;
  #done;
  #signal;
  #stop = null;
  #buttons = Object.keys(ACTIONS).map((action) =>
    element("button", { class: "quiet", type: "button", onclick: () => void this.#run(action) }, `${ACTIONS[action]} all …`),
  );
  #halt = element("button", { class: "quiet", type: "button", hidden: true, onclick: () => this.#stop?.abort() }, "Stop");
  #told = element("p", { class: "hint", role: "status" });
  root = element(
    "div",
    { class: "bulk", role: "group", "aria-label": "All that the filter holds, on all pages" },
    element("p", { class: "hint" }, "All that the filter holds, on all pages:"),
    element("div", { class: "row" }, this.#buttons, this.#halt),
    this.#told,
  );

  /** `filter` gives what is listed; `done` is called when something may have changed. */
  constructor(queue, filter, done, signal) {
    this.#queue = queue;
    this.#filter = filter;
    this.#done = done;
    this.#signal = signal;
  }

  async #run(action) {
    const filter = this.#filter(); // What was counted is what is done, whatever is listed meanwhile.
    const name = ACTIONS[action];
    try {
      const { matched } = await this.#ask({ action, filter, dryRun: true }, "Counting …");
      const told = `${number(matched)} ${matched === 1 ? "item" : "items"}`;
      if (!matched) return this.#tell(`There is nothing in the list to ${action}.`);
      this.#tell(`${told} counted.`);
      if (!(await confirmed(`${name} ${told}?${inWords(filter)}`, `${name} ${told}`))) return this.#tell("Nothing was changed.");
      const { changed } = await this.#ask({ action, filter, dryRun: false }, `${name} ${told} …`);
      this.#tell(`${number(changed)} of ${number(matched)} were changed.`);
    } catch (error) {
      this.#tell(this.#stop?.signal.aborted ? "Stopped. What was changed until then stays so." : faultText(error));
    }
    return this.#done();
  }

  async #ask(body, meanwhile) {
    this.#stop = new AbortController();
    this.#busy(true);
    this.#tell(meanwhile);
    try {
      const signal = AbortSignal.any([this.#stop.signal, this.#signal]);
      return await this.#queue.ask("POST", "bulk", { body, signal });
    } finally {
      this.#busy(false);
    }
  }

  #busy(busy) {
    for (const button of this.#buttons) button.disabled = busy;
    this.#halt.hidden = !busy;
  }

  #tell(text) {
    this.#told.textContent = text;
  }
}

function inWords(filter) {
  const said = Object.entries(filter).map(([name, value]) => `${name} ${value}`);
  return said.length ? ` (${said.join(", ")})` : " There is no filter: it is all of this queue.";
}
