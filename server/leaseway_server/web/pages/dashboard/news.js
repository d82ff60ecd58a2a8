/** What a screen reader says at once, though the eye finds it elsewhere. */

/** @param {string} text */
export function say(text) {
  /** @type {HTMLElement} */ (document.getElementById("news")).textContent = text;
}
