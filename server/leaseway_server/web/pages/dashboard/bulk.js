/** One action on all items that the filter holds: counted first, by the server's dry run, and confirmed by that count. */

import { confirmed } from "./asking.js";
import { element } from "./element.js";
import { apart, faultText, number } from "./words.js";

/** @typedef {Record<string, string>} Filter  what is listed, by the names of the request's query */

const ACTIONS = /** @type {const} */ ({ retry: "Retry", cancel: "Cancel", delete: "Delete" });
const NAMES = /** @type {(keyof typeof ACTIONS)[]} */ (Object.keys(ACTIONS));

export class Bulk {
  #queue;
  #filter;
  #done;
  #signal;
  /** @type {AbortController | null} */
  #stop = null;
  #buttons = NAMES.map((action) =>
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

  /**
   * @param {import("../../_client/client.js").Queue} queue
   * @param {() => Filter} filter  gives what is listed
   * @param {() => void} done  called when something may have changed
   * @param {AbortSignal} signal
   */
  constructor(queue, filter, done, signal) {
    this.#queue = queue;
    this.#filter = filter;
    this.#done = done;
    this.#signal = signal;
  }

  /** @param {keyof typeof ACTIONS} action */
  async #run(action) {
    const filter = this.#filter(); // What was counted is what is done, whatever is listed meanwhile.
    const name = ACTIONS[action];
    let acts = false;
    try {
      const { matched } = await this.#ask({ action, filter, dryRun: true }, "Counting …");
      const told = `${number(matched)} ${matched === 1 ? "item" : "items"}`;
      if (!matched) return this.#tell(`There is nothing in the list to ${action}.`);
      this.#tell(`${told} counted.`);
      const question = `${name} ${told}?${inWords(filter)}`;
      if (!(await confirmed(question, `${name} ${told}`, this.#signal))) return this.#tell("Nothing was changed.");
      acts = true;
      const done = await this.#ask({ action, filter, dryRun: false }, `${name} ${told} …`);
      const since = done.matched === matched ? "" : ` When they were counted there were ${number(matched)}.`;
      this.#tell(`${number(done.changed)} of ${number(done.matched)} were changed.${since}`);
    } catch (error) {
      const text = this.#stop?.signal.aborted ? "Stopped" : faultText(/** @type {Error} */ (error));
      const outcome = acts ? "What was changed until then stays so." : "Nothing was changed.";
      this.#tell(`${text.replace(/\.$/, "")}. ${outcome}`);
    }
    return this.#done();
  }

  /** @param {{action: string, filter: Filter, dryRun: boolean}} body @param {string} meanwhile  is told */
  async #ask(body, meanwhile) {
    const stop = (this.#stop = new AbortController());
    this.#busy(true);
    this.#tell(meanwhile);
    try {
      const signal = AbortSignal.any([stop.signal, this.#signal]);
      return await this.#queue.ask("POST", "bulk", { body, signal });
    } finally {
      this.#busy(false);
    }
  }

  /** @param {boolean} busy */
  #busy(busy) {
    for (const button of this.#buttons) button.disabled = busy;
    this.#halt.hidden = !busy;
  }

  /** @param {string} text */
  #tell(text) {
    this.#told.textContent = text;
  }
}

/** @param {Filter} filter */
function inWords(filter) {
  const said = Object.entries(filter).map(([name, value]) => `${name} ${apart(value)}`);
  return said.length ? ` (${said.join(", ")})` : " There is no filter: it is all of this queue.";
}
