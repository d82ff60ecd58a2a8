/** All queues that one may see, each with its figures, live. */

import { ConnectionLost, Unauthorized } from "../../_client/errors.js";
import { element, fill } from "./element.js";
import { linkTo } from "./place.js";
import { CONNECT_WITHIN_MS, STATUSES, hindranceText, number } from "./words.js";

/** @typedef {import("./session.js").Session} Session */

/** So many are live; each has a connection of its own. What is beyond is live when it is opened. */
const MOST_LIVE = 30;

export class Overview {
  root;
  /** The same for all queues, so it is told once. */
  #hindrance = element("p", { class: "connection", role: "status", "data-state": "lost", hidden: true });

  /**
   * @param {Session} session
   * @param {AbortSignal} signal
   * @param {(error: Error) => void} failed  told that the token is not valid any more
   */
  constructor(session, signal, failed) {
    const cards = session.queues.map(({ queue, rights }) => new Card(queue, rights));
    this.root = element(
      "section",
      { "aria-labelledby": "overview" },
      element("h1", { id: "overview" }, "Queues"),
      this.#hindrance,
      cards.length ? null : element("p", { class: "hint" }, "There is no queue that you may see."),
      element("ul", { class: "cards" }, cards.map((card) => card.root)),
    );
    const live = cards.filter((card) => card.mayWatch).slice(0, MOST_LIVE);
    const tell = { failed, hindered: (/** @type {Error | null} */ error) => this.#tell(error) };
    for (const [turn, card] of live.entries()) void card.watch(session.open(card.queue, live.length, turn), signal, tell);
  }

  /** @param {Error | null} hindrance  what keeps connections from coming about */
  #tell(hindrance) {
    this.#hindrance.hidden = !hindrance;
    if (hindrance) this.#hindrance.textContent = hindranceText(hindrance);
  }
}

class Card {
  root;
  queue;
  mayWatch;
  #figures = element("p", { class: "hint" });

  /** @param {string} queue @param {string[]} rights */
  constructor(queue, rights) {
    this.queue = queue;
    this.mayWatch = rights.includes("fetch");
    if (this.mayWatch) fill(this.#figures, "Its figures are shown when you open it.");
    this.root = element(
      "li",
      { class: "sheet" },
      element("h2", {}, element("a", { href: linkTo(queue) }, queue)),
      this.#figures,
      element("p", { class: "hint" }, rights.length ? `you may ${rights.join(", ")}` : "you may see that it is there"),
    );
  }

  /**
   * Until the signal: the client comes back by itself where the connection is lost.
   *
   * @param {import("../../_client/client.js").Queue} client
   * @param {AbortSignal} signal
   * @param {{failed: (error: Error) => void, hindered: (error: Error | null) => void}} tell
   */
  async watch(client, signal, { failed, hindered }) {
    fill(this.#figures, "Connecting …");
    signal.addEventListener("abort", () => client.close());
    client.addEventListener("online", () => hindered(null));
    client.connected({ timeoutMs: CONNECT_WITHIN_MS }).catch((error) => error instanceof ConnectionLost && hindered(error));
    try {
      for await (const stats of client.stats({ signal })) this.#show(stats);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Unauthorized) failed(error);
      else fill(this.#figures, /** @type {Error} */ (error).message);
    }
  }

  /** @param {import("../../_client/client.js").Stats} stats */
  #show({ counts, workers }) {
    const told = STATUSES.filter((status) => counts[status]).map((status) =>
      element("span", { class: "badge", "data-status": status }, `${number(counts[status])} ${status}`),
    );
    fill(this.#figures, told.length ? told : "empty", ` · ${number(workers)} ${workers === 1 ? "worker" : "workers"}`);
  }
}
