/** What the browser keeps for these pages, where it may: in this tab until it is closed, or in this browser for good. */

/** @typedef {"localStorage" | "sessionStorage"} Storage */

/** @param {Storage} storage @param {string} name @returns {string} */
export function readKept(storage, name) {
  try {
    return globalThis[storage].getItem(`leaseway-${name}`) ?? "";
  } catch {
    return ""; // Storage is switched off.
  }
}

/** Keeps a text; an empty one is forgotten. @param {Storage} storage @param {string} name @param {string} text */
export function keep(storage, name, text) {
  try {
    if (text) globalThis[storage].setItem(`leaseway-${name}`, text);
    else globalThis[storage].removeItem(`leaseway-${name}`);
  } catch {
    // Storage is switched off or full: it lasts as long as the page does.
  }
}
