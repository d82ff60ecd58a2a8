/** What was seen in a picture, drawn: a bar of its colours, their names, and how light it is. */

import { make } from "./element.js";

const COLOUR = /^#[0-9a-f]{6}$/;

/**
 * @param {{colour: string, share: number}[]} colours  what is no `#rrggbb` is left out
 * @param {number} luminance
 */
export function seen(colours, luminance) {
  const shown = colours.filter(({ colour }) => COLOUR.test(colour));
  const bar = make("div", { className: "colours", ariaHidden: "true" }, ...shown.map(stripe));
  const names = shown.map(({ colour }) => make("li", {}, chip(colour), colour));
  const light = make("p", { className: "line" }, `luminance ${Number(luminance).toFixed(4)}`);
  const list = make("ul", { className: "names", ariaLabel: "Main colours" }, ...names);
  return make("div", {}, bar, list, light);
}

/** @param {{colour: string, share: number}} each */
function stripe({ colour, share }) {
  const part = make("span");
  part.style.backgroundColor = colour;
  part.style.flexGrow = String(share);
  return part;
}

/** @param {string} colour */
function chip(colour) {
  const part = make("i");
  part.style.backgroundColor = colour;
  return part;
}
