/** A value of an item as nodes: pictures as pictures, colours with a chip, the rest as JSON text, never as HTML. */

import { element } from "./element.js";
import { bytes } from "./words.js";

const PICTURE = /^data:image\/(png|jpeg|webp|gif);base64,/;
const COLOUR = /^#[0-9a-f]{6}$/;
/** So many characters are shown of a text at first; a browser that lays out 800 KiB at once stands still. */
const SHOWN_AT_FIRST = 2_000;

/** @param {any} value */
export function shown(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return one("value", value);
  const members = Object.entries(value);
  if (!members.length) return text("{}");
  return element("dl", { class: "members" }, members.flatMap(([name, member]) => [element("dt", {}, name), element("dd", {}, one(name, member))]));
}

/** @param {string} name @param {any} value */
function one(name, value) {
  if (typeof value === "string") return PICTURE.test(value) ? element("img", { src: value, alt: name }) : text(value);
  if (Array.isArray(value) && value.length && value.every((each) => COLOUR.test(each))) return element("span", {}, value.map(colour));
  return json(value);
}

/**
 * Integers of other languages have up to 64 bits: what was rounded when it was read is not shown as if it were exact.
 *
 * @param {any} value
 */
function json(value) {
  let rounded = false;
  const whole = JSON.stringify(value, (_name, member) => ((rounded ||= isRounded(member)), member), 2);
  const hint = rounded && element("p", { class: "hint" }, "Whole numbers of over 53 bits are rounded here.");
  return rounded ? element("div", {}, text(whole), hint) : text(whole);
}

/** @param {any} value */
function isRounded(value) {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) <= 2 ** 64;
}

/** @param {string} whole */
function text(whole) {
  const shownText = element("pre", {}, whole.slice(0, SHOWN_AT_FIRST));
  if (whole.length <= SHOWN_AT_FIRST) return shownText;
  const more = element("button", { class: "quiet", type: "button" }, `Show all of it (${bytes(whole.length)})`);
  more.addEventListener("click", () => {
    shownText.textContent = whole;
    shownText.focus();
    more.remove();
  });
  shownText.setAttribute("tabindex", "-1");
  return element("div", {}, shownText, more);
}

/** @param {string} value */
function colour(value) {
  const chip = element("i", { "aria-hidden": "true" });
  chip.style.backgroundColor = value;
  return element("span", { class: "colour" }, chip, value);
}
