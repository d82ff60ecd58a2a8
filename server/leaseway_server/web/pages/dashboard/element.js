/**
 * The one place where nodes are made. Text becomes text and never HTML, whoever wrote it: there is no other way in here.
 *
 *     element("button", { class: "quiet", onclick: () => act() }, "Act")
 *
 * An attribute that is null or false is left out, one that is true is there, a function listens.
 */

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Replaces what is in a node by nodes and texts; null and false are left out. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter(isThere));
}

/** The same, where the keyboard's focus stays on what it was on, if that is still there. */
export function refill(node, ...children) {
  const focused = document.activeElement;
  fill(node, ...children);
  if (focused !== document.activeElement && node.contains(focused)) focused.focus({ preventScroll: true });
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else if (isThere(value)) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(isThere));
  return node;
}

function isThere(value) {
  return value !== null && value !== undefined && value !== false;
}
