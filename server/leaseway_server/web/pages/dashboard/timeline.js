/** An item's life on one line: when it was posted, due, begun and ended, and each attempt as a stretch of it. */

import { element } from "./element.js";
import { duration, moment } from "./words.js";

/** @typedef {import("../../_client/protocol.js").View} View */
/** @typedef {import("./attempts.js").Attempt} Attempt */
/** @typedef {{from: number, to: number, ending: string}} Stretch */

/**
 * @param {View} view
 * @param {Attempt[]} attempts  those that ended otherwise than well
 * @param {number} now  the server's
 */
export function timeline(view, attempts, now) {
  const times = timesOf(view);
  const stretches = stretchesOf(view, attempts, now);
  const ends = [...times.map(([, at]) => at), ...stretches.flatMap(({ from, to }) => [from, to])];
  if (!view.finishedAt) ends.push(now);
  const first = Math.min(...ends);
  const span = Math.max(1, Math.max(...ends) - first);
  const at = (/** @type {HTMLElement} */ node, /** @type {number} */ from, to = from) => {
    node.style.insetInlineStart = `${((from - first) / span) * 100}%`;
    if (to > from) node.style.inlineSize = `${((to - from) / span) * 100}%`;
    return node;
  };
  return element(
    "div",
    { class: "timeline" },
    element(
      "div",
      { class: "line", "aria-hidden": "true" },
      stretches.map(({ from, to, ending }) => at(element("span", { class: "stretch", "data-ending": ending, title: ending }), from, to)),
      times.map(([name, when]) => at(element("span", { class: "dot", title: `${name} ${moment(when)}` }), when)),
    ),
    element("ol", {}, times.map(([name, when], index) => element("li", {}, element("b", {}, name), " ", moment(when), index > 0 && ` (${since(when - times[0][1])})`))),
  );
}

/** The earliest first. @param {View} view */
function timesOf(view) {
  const { postedAt, dueAt, startedAt, finishedAt, expiresAt } = view;
  /** @type {[string, number | null][]} */
  const times = [
    ["posted", postedAt],
    ["due", dueAt > postedAt && !finishedAt ? dueAt : null],
    [view.attempts > 1 ? "last begun" : "begun", startedAt],
    ["expires", finishedAt ? null : expiresAt],
    [view.status, finishedAt],
  ];
  const known = /** @type {[string, number][]} */ (times.filter(([, at]) => at));
  return known.sort(([, one], [, other]) => one - other);
}

/** @param {View} view @param {Attempt[]} attempts @param {number} now @returns {Stretch[]} */
function stretchesOf(view, attempts, now) {
  const before = attempts.filter((each) => each.from).map(({ from, to, ending }) => ({ from, to, ending }));
  const charged = attempts.some((each) => each.attempts === view.attempts);
  if (!view.startedAt || charged) return before;
  return [...before, { from: view.startedAt, to: view.finishedAt ?? now, ending: view.status }];
}

/** @param {number} ms */
function since(ms) {
  return ms < 0 ? `${duration(-ms)} before` : `${duration(ms)} later`;
}
