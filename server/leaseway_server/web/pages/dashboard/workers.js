/** Who is connected to work, what each holds, and since when. */

import { age } from "./age.js";
import { element, refill } from "./element.js";
import { linkTo } from "./place.js";
import { number } from "./words.js";

/** @typedef {{id: string, since: number}} Held */

/**
 * Somebody who is connected to work (PROTOCOL.md §5).
 *
 * @typedef {object} Connected
 * @property {string} worker
 * @property {string | null} user
 * @property {string | null} client
 * @property {number} connectedAt
 * @property {Held[]} holds
 * @property {{count: number}[]} waiting
 */

const MOST_WORKERS = 50;
const MOST_HELD = 5;

export class Workers {
  #queue;
  #name;
  #rows = element("tbody");
  #more = element("p", { class: "hint" });
  root = element(
    "section",
    { class: "sheet", "aria-labelledby": "workers" },
    element("h2", { id: "workers" }, "Workers"),
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": "workers" },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ["worker", "holds", "asks for", "connected"].map(heading))),
        this.#rows,
      ),
    ),
    this.#more,
  );

  /** @param {import("../../_client/client.js").Queue} queue @param {string} name  its */
  constructor(queue, name) {
    this.#queue = queue;
    this.#name = name;
  }

  async refresh() {
    /** @type {{workers: Connected[]}} */
    const { workers } = await this.#queue.ask("GET", "workers");
    refill(this.#rows, foremost(workers).map((worker) => this.#row(worker)));
    const rest = workers.length - MOST_WORKERS;
    this.#more.textContent = workers.length ? (rest > 0 ? `and ${number(rest)} more` : "") : "None is connected.";
  }

  /** @param {Connected} connected */
  #row({ worker, user, client, connectedAt, holds, waiting }) {
    const places = waiting.reduce((sum, claim) => sum + claim.count, 0);
    return element(
      "tr",
      {},
      element("th", { scope: "row", class: "name", title: client ?? "" }, element("bdi", {}, worker || "without a name"), user && this.#user(user)),
      element("td", {}, this.#held(holds)),
      element("td", {}, places ? `${number(places)} more` : "nothing"),
      element("td", {}, age(connectedAt)),
    );
  }

  /** @param {string} user */
  #user(user) {
    return element("small", {}, " ", element("bdi", {}, user));
  }

  /** @param {Held[]} holds */
  #held(holds) {
    const shown = holds.slice(0, MOST_HELD).map(({ id, since }) =>
      element("div", {}, element("a", { class: "id", href: linkTo(this.#name, id) }, id), " ", age(since)),
    );
    const rest = holds.length - MOST_HELD;
    return shown.length ? [...shown, rest > 0 && `and ${number(rest)} more`] : "nothing";
  }
}

/** Where there are too many to show, those that hold something come first. @param {Connected[]} workers */
function foremost(workers) {
  if (workers.length <= MOST_WORKERS) return workers;
  const busy = workers.filter(({ holds }) => holds.length);
  return [...busy, ...workers.filter(({ holds }) => !holds.length)].slice(0, MOST_WORKERS);
}

/** @param {string} text */
function heading(text) {
  return element("th", { scope: "col" }, text);
}
