/** All queues that one may see, each with its figures, live. */

import { Unauthorized } from "../../_client/errors.js";
import { element, fill } from "./element.js";
import { linkTo } from "./place.js";
import { STATUSES, number } from "./words.js";

/** So many are live; each has a connection of its own. What is beyond is live when it is opened. */
const MOST_LIVE = 30;

export class Overview {
  root;

  /** `failed` is told that the token is not valid any more. */
  constructor(session, signal, failed) {
    const cards = session.queues.map(({ queue, rights }) => new Card(queue, rights));
    this.root = element(
      "section",
      { "aria-labelledby": "overview" },
      element("h1", { id: "overview" }, "Queues"),
      cards.length ? null : element("p", { class: "hint" }, "There is no queue that you may see."),
      element("ul", { class: "cards" }, cards.map((card) => card.root)),
    );
    const live = cards.filter((card) => card.mayWatch).slice(0, MOST_LIVE);
    for (const card of live) void card.watch(session, live.length, signal, failed);
  }
}

class Card {
  root;
  mayWatch;
  #queue;
  #figures = element("p", { class: "hint" });

  constructor(queue, rights) {
    this.#queue = queue;
    this.mayWatch = rights.includes("fetch");
    this.root = element(
      "li",
      { class: "sheet" },
      element("h2", {}, element("a", { href: linkTo(queue) }, queue)),
      this.#figures,
      element("p", { class: "hint" }, rights.length ? `you may ${rights.join(", ")}` : "you may see that it is there"),
    );
  }

  /** Until the signal: the client comes back by itself where the connection is lost. `cards` are live in all. */
  async watch(session, cards, signal, failed) {
    const client = session.open(this.#queue, cards);
    signal.addEventListener("abort", () => client.close());
    try {
      for await (const stats of client.stats({ signal })) this.#show(stats);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Unauthorized) failed(error);
      else fill(this.#figures, error.message);
    }
  }

  #show({ counts, workers }) {
    const told = STATUSES.filter((status) => counts[status]).map((status) =>
      element("span", { class: "badge", "data-status": status }, `${number(counts[status])} ${status}`),
    );
    fill(this.#figures, told.length ? told : "empty", ` · ${number(workers)} ${workers === 1 ? "worker" : "workers"}`);
  }
}
