/** Times that say how long ago they were, and go on by themselves: one timer for all, which asks nobody. */

import { element } from "./element.js";
import { serverNow } from "./server-clock.js";
import { duration, moment } from "./words.js";

const MINUTE = 60_000;

/** A time of the server, as its age. @param {number} at */
export function age(at) {
  const shown = element("time", { "data-at": at, title: moment(at) });
  show(shown);
  return shown;
}

/** @param {number} ms @param {number} unit */
function wholly(ms, unit) {
  return Math.floor(ms / unit) * unit;
}

/** @param {HTMLElement} shown */
function show(shown) {
  const exact = serverNow() - Number(shown.dataset.at);
  const ms = wholly(exact, Math.abs(exact) < MINUTE ? 1000 : MINUTE); // Who reads minutes asks for no seconds.
  // The header that gives the server's time is exact to half a second.
  shown.textContent = ms < -1000 ? `in ${duration(-ms)}` : ms < 1000 ? "just now" : `${duration(ms)} ago`;
}

/** @type {HTMLCollectionOf<HTMLTimeElement>} */
const shownTimes = document.getElementsByTagName("time"); // Live.
setInterval(() => [...shownTimes].forEach(show), 1000);
