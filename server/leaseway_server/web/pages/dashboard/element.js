/**
 * The one place where nodes are made. Text becomes text and never HTML, whoever wrote it: there is no other way in here.
 *
 *     element("button", { class: "quiet", onclick: () => act() }, "Act")
 *
 * An attribute that is null or false is left out, one that is true is there, a function listens.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {(Child | Child[])[]} Children */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {Children} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * The same, of a drawing.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {Children} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * Replaces what is in a node by nodes and texts; null and false are left out.
 *
 * @param {Element} node
 * @param {Children} children
 */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter(isThere));
}

/**
 * The same, where the keyboard's focus stays on what it was on, if that is still there.
 *
 * @param {Element} node
 * @param {Children} children
 */
export function refill(node, ...children) {
  const focused = document.activeElement;
  fill(node, ...children);
  if (!(focused instanceof HTMLElement) || focused === document.activeElement || !node.contains(focused)) return;
  focused.focus({ preventScroll: true });
}

/**
 * @template {Element} Made
 * @param {Made} node
 * @param {Attributes} attributes
 * @param {Children} children
 */
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else if (isThere(value)) node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter(isThere));
  return node;
}

/** @template T @param {T | null | undefined | false} value @returns {value is T} */
function isThere(value) {
  return value !== null && value !== undefined && value !== false;
}
