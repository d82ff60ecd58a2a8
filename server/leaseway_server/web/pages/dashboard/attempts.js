/** What became of the attempts of an item that gave no result: who, how long, and by which cause. */

import { element } from "./element.js";
import { duration } from "./words.js";

/**
 * An attempt that gave no result (PROTOCOL.md §5).
 *
 * @typedef {object} Attempt
 * @property {number} attempts
 * @property {string | null} worker
 * @property {number} from
 * @property {number} to
 * @property {string} ending
 * @property {{message: string} | null} [error]
 */

/** What an ending means (PROTOCOL.md §1). @type {Record<string, string>} */
const MEANS = {
  lost: "its worker was lost",
  parted: "the server was restarted meanwhile, at no charge",
  failed: "its worker said that it failed",
  released: "its worker gave it back, at no charge",
};

/** @param {Attempt[]} attempts */
export function attemptTable(attempts) {
  const head = ["attempt", "worker", "took", "cause"].map((name) => element("th", { scope: "col" }, name));
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "Attempts" },
    element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, attempts.map(row))),
  );
}

/** @param {Attempt} attempt */
function row({ attempts, worker, from, to, ending, error }) {
  const cells = [worker ?? "", duration(to - from), `${ending}: ${MEANS[ending] ?? ""}${error ? ` (${error.message})` : ""}`];
  return element("tr", { "data-ending": ending }, element("th", { scope: "row" }, String(attempts)), cells.map((text) => element("td", {}, text)));
}
