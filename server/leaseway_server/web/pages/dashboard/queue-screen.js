/**
 * One queue: its figures, who works on it, its items, and a way to post.
 *
 * Owns the connection. The server tells the figures, at most twice a second while they change; that something
 * changed is the sign to ask again for what is shown and is not told: nothing is asked by the clock.
 */

import { AccessRefused, ConnectionLost } from "../../_client/errors.js";
import { Chart } from "./chart.js";
import { element, fill } from "./element.js";
import { Figures } from "./figures.js";
import { ItemSheet } from "./item-sheet.js";
import { ItemTable } from "./item-table.js";
import { say } from "./news.js";
import { OwnItems } from "./own-items.js";
import { Pace } from "./pace.js";
import { Posting } from "./posting.js";
import { CONNECT_WITHIN_MS, hindranceText } from "./words.js";
import { Workers } from "./workers.js";

/**
 * What is told of a queue to who may see it (PROTOCOL.md §5).
 *
 * @typedef {object} Facts
 * @property {string[]} rights
 * @property {Record<string, number> | null} counts  null where each sees only its own items
 * @property {boolean} paused
 * @property {number | null} oldestReadyAt
 * @property {{item?: import("./fields.js").Schema | null}} schemas
 * @property {{maxValueBytes?: number}} limits
 */

/**
 * A part of the screen. `told` hears the figures, `found` what is told of the queue, `refresh` asks for its own.
 *
 * @typedef {object} Part
 * @property {HTMLElement} root
 * @property {(stats: import("../../_client/client.js").Stats) => void} [told]
 * @property {(facts: Facts) => void} [found]
 * @property {() => Promise<void>} [refresh]
 */

/** Between two times that shown things are asked for again, milliseconds. */
const EVERY = 1_500;
export class QueueScreen {
  root;
  name;
  #session;
  #queue;
  #signal;
  #failed;
  #rights;
  #state = element("p", { class: "connection", role: "status", "data-state": "connecting" }, "Connecting …");
  #fault = element("p", { class: "fault", role: "alert" });
  #paused = element("span", { class: "badge", "data-status": "paused", hidden: true }, "paused");
  #pause = element("button", { class: "quiet", type: "button", hidden: true, onclick: () => this.#act(() => this.#turn()) });
  #again = element("button", { class: "quiet", type: "button", hidden: true, onclick: () => this.#pace.ask() }, "Refresh");
  #body = element("div", { class: "parts" });
  /** @type {Part[]} */
  #parts = [];
  #pace;
  /** What keeps the first connection from coming about, where that is known. */
  #hindrance = "";
  /** @type {ItemSheet | null} */
  #sheet = null;
  #item = "";

  /**
   * @param {import("./session.js").Session} session
   * @param {string} name
   * @param {AbortSignal} signal
   * @param {(error: Error) => void} failed  told what this screen cannot go on with
   */
  constructor(session, name, signal, failed) {
    this.name = name;
    this.#session = session;
    this.#signal = signal;
    this.#failed = failed;
    this.#rights = session.rightsOn(name);
    this.#queue = session.open(name, this.may("admin") ? 1 : 2); // A second one where `OwnItems` follows `mine`.
    this.#pace = new Pace(() => this.#refresh(), EVERY, signal);
    this.root = element(
      "article",
      { "aria-labelledby": "queue" },
      element(
        "header",
        { class: "row spread" },
        element("h1", { id: "queue" }, name, " ", this.#paused),
        element("div", { class: "row" }, this.#again, this.#pause),
      ),
      this.#state,
      this.#fault,
      this.#body,
    );
    signal.addEventListener("abort", () => this.#end());
    this.#listen(); // Before anything connects, as an item that is shown does too.
    void this.#begin();
  }

  /** @param {string} right */
  may(right) {
    return this.#rights.has(right);
  }

  /** Shows the item beside the queue; an empty id closes it. @param {string} id */
  openItem(id) {
    if (id === this.#item) return;
    this.#item = id;
    this.#sheet?.close();
    this.#sheet = id && this.may("fetch") ? new ItemSheet(this, this.#queue, id, this.#signal, this.#failed) : null;
  }

  /** Something changed: what is shown is asked for again, as soon as the pace allows. */
  changed() {
    this.#pace.ask();
  }

  // The beginning and the end

  async #begin() {
    if (this.#rights.size && !this.may("fetch")) return this.#withoutLooking(); // Without any the server says what is wrong.
    let facts;
    try {
      facts = await this.#queue.ask("GET", "", { signal: this.#signal });
    } catch (error) {
      if (!this.#signal.aborted) this.#failed(/** @type {Error} */ (error));
      return undefined;
    }
    this.#layFor(facts);
    void this.#connect();
    return this.#follow();
  }

  /** Who may post and not look has the form alone; its schema is for whoever has any right. */
  async #withoutLooking() {
    this.#tellState("refused", "With your rights one cannot watch this queue.");
    if (!this.may("post")) return;
    const schema = await this.#queue.ask("GET", "schemas/item.json").catch(() => null);
    fill(this.#body, new Posting(this.#queue, { schemas: { item: schema }, limits: {}, counts: null }, () => {}).root);
  }

  /** All that the rights allow; an administrator may have changed them meanwhile. @param {Facts} facts */
  #layFor(facts) {
    this.#rights = new Set(facts.rights);
    const own = new OwnItems(this.#queue, this.name, this.#signal, this.#session.signedIn);
    const posted = (/** @type {string} */ id) => {
      own.add(id);
      this.#pace.ask();
      location.hash = `${this.name}/${id}`;
    };
    const admin = this.may("admin");
    const table = admin ? new ItemTable(this.#queue, this.name, this.#signal) : null;
    this.#parts = [
      new Figures(facts, table && ((status) => table.only(status))),
      ...(admin ? [new Chart(this.#queue), new Workers(this.#queue, this.name)] : []),
      ...(this.may("post") ? [new Posting(this.#queue, facts, posted)] : []),
      table ?? own,
    ];
    fill(this.#body, this.#parts.map((each) => each.root));
    this.#showPause(facts.paused);
    this.#pace.ask();
  }

  #end() {
    this.#sheet?.close();
    this.#queue.close();
  }

  // The connection

  #listen() {
    this.#queue.addEventListener("online", () => {
      this.#hindrance = this.#fault.textContent = "";
      this.#tellState("open", "Live: changes are shown as they happen.");
      void this.#session.refresh().catch((error) => this.#wentWrong(error)); // What one may may be other by now.
      this.#pace.ask();
    });
    this.#queue.addEventListener("offline", () =>
      this.#tellState("lost", this.#hindrance || "No connection to the server. It is tried again by itself; nothing is lost."),
    );
    this.#queue.addEventListener("refused", (event) => this.#failed(/** @type {any} */ (event).error));
  }

  async #connect() {
    try {
      await this.#queue.connected({ timeoutMs: CONNECT_WITHIN_MS });
    } catch (error) {
      if (!(error instanceof ConnectionLost) || this.#signal.aborted) return;
      this.#hindrance = hindranceText(error);
      this.#tellState("lost", this.#hindrance);
    }
  }

  async #follow() {
    try {
      for await (const stats of this.#queue.stats({ signal: this.#signal })) {
        for (const part of this.#parts) part.told?.(stats);
        this.#pace.ask();
      }
    } catch {
      // What ends the connection is told by `refused`; where figures are not for everybody, there are none here.
    }
  }

  // What is shown

  async #refresh() {
    await Promise.all([this.#facts(), ...this.#parts.map((part) => part.refresh?.()), this.#sheet?.refresh()]).catch(
      (error) => this.#wentWrong(error),
    );
  }

  async #facts() {
    /** @type {Facts} */
    const facts = await this.#queue.ask("GET", "", { signal: this.#signal });
    if (facts.rights.join() !== [...this.#rights].join()) return this.#layFor(facts);
    this.#showPause(facts.paused);
    for (const part of this.#parts) part.found?.(facts);
    return undefined;
  }

  /** A connection that is lost is told already. @param {Error} error */
  #wentWrong(error) {
    if (this.#signal.aborted || error instanceof ConnectionLost) return;
    if (error instanceof AccessRefused) this.#failed(error);
    else this.#fault.textContent = error.message;
  }

  /** @param {boolean} paused */
  #showPause(paused) {
    this.#paused.hidden = !paused;
    this.#pause.hidden = !this.may("admin");
    this.#pause.textContent = paused ? "Unpause" : "Pause";
  }

  async #turn() {
    const { paused } = await this.#queue.ask("POST", this.#paused.hidden ? "pause" : "unpause");
    this.#showPause(paused);
    say(paused ? "The queue is paused: nothing is given out." : "The queue goes on.");
  }

  /** @param {() => Promise<void>} act */
  async #act(act) {
    this.#fault.textContent = "";
    await act().catch((error) => {
      if (error instanceof ConnectionLost) this.#fault.textContent = `Nobody knows whether that was done: ${error.message}`;
      else this.#wentWrong(error);
    });
  }

  /** @param {string} state @param {string} text */
  #tellState(state, text) {
    this.#state.dataset.state = state;
    this.#state.textContent = text;
    this.#again.hidden = state !== "lost";
  }
}
