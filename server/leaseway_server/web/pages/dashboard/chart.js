/** What happened in each minute of the last hour, as a small chart. The newest minute comes with the figures. */

import { drawn, element, fill } from "./element.js";
import { number } from "./words.js";

/** @typedef {Record<string, number>} Minute  `at`, when it began, and how often each thing happened in it */
/** @typedef {(count: number) => number} Tall  so high a count is drawn */

const MINUTES = 60;
const WIDE = 6;
const HIGH = 90;
const BAD = ["failed", "dead"];

export class Chart {
  #queue;
  /** @type {Minute[]} */
  #minutes = [];
  #known = false;
  #picture = drawn("svg", { viewBox: `0 0 ${MINUTES * WIDE} ${HIGH}`, "aria-hidden": "true", preserveAspectRatio: "none" });
  #words = element("p", { class: "hint" });
  root = element(
    "section",
    { class: "sheet", "aria-labelledby": "chart" },
    element("h2", { id: "chart" }, "The last hour"),
    element("div", { class: "chart" }, this.#picture),
    this.#words,
    element(
      "p",
      { class: "hint legend", "aria-hidden": "true" },
      element("span", { class: "key done" }, "finished"),
      element("span", { class: "key bad" }, "failed or dead"),
      element("span", { class: "key posted" }, "posted"),
    ),
  );

  /** @param {import("../../_client/client.js").Queue} queue */
  constructor(queue) {
    this.#queue = queue;
  }

  /** Asked once, and again when the connection was away: what is told since is the newest minute. */
  async refresh() {
    if (this.#known) return;
    this.#minutes = (await this.#queue.ask("GET", "rates")).minutes;
    this.#known = true;
    this.#draw();
  }

  /** @param {import("../../_client/client.js").Stats} stats */
  told({ rates }) {
    const newest = this.#minutes.at(-1);
    if (!this.#known || !newest || !rates || rates.at < newest.at) return;
    if (rates.at === newest.at) this.#minutes.splice(-1, 1, rates);
    else if (rates.at === newest.at + 60_000) this.#minutes = [...this.#minutes.slice(1), rates];
    else this.#known = false; // A gap: all are asked for again.
    this.#draw();
  }

  #draw() {
    const most = Math.max(1, ...this.#minutes.map((minute) => Math.max(minute.posted, minute.finished + bad(minute))));
    /** @type {Tall} */
    const tall = (count) => (count / most) * (HIGH - 4);
    fill(this.#picture, this.#minutes.flatMap((minute, at) => bars(minute, at, tall)), this.#line(tall));
    /** @type {(count: (minute: Minute) => number) => string} */
    const sum = (count) => number(this.#minutes.reduce((total, minute) => total + count(minute), 0));
    this.#words.textContent = `${sum((one) => one.posted)} posted, ${sum((one) => one.finished)} finished, ${sum(bad)} failed or dead.`;
  }

  /** @param {Tall} tall */
  #line(tall) {
    const points = this.#minutes.map((minute, at) => `${at * WIDE + WIDE / 2},${HIGH - tall(minute.posted)}`);
    return drawn("polyline", { class: "posted", points: points.join(" ") });
  }
}

/** @param {Minute} minute */
function bad(minute) {
  return BAD.reduce((sum, name) => sum + minute[name], 0);
}

/** @param {Minute} minute @param {number} at @param {Tall} tall */
function bars(minute, at, tall) {
  const bar = (/** @type {string} */ name, /** @type {number} */ from, /** @type {number} */ height) =>
    drawn("rect", { class: name, x: at * WIDE + 1, width: WIDE - 2, y: HIGH - from - height, height });
  const done = tall(minute.finished);
  return [bar("done", 0, done), bar("bad", done, tall(bad(minute)))];
}
