/** Where one is: the queue and the item that the address names after `#`. A token is never there. */

export function placeNow() {
  const [queue = "", item = ""] = location.hash.slice(1).split("/").map(decoded);
  return { queue, item };
}

/** @param {string} queue @param {string} [item] */
export function linkTo(queue, item = "") {
  return `#${[queue, item].filter(Boolean).map(encodeURIComponent).join("/")}`;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
