/** Light or dark: as the system asks, until the person says otherwise; then in this browser for good. */

import { keep, readKept } from "../kept.js";

/** @param {HTMLSelectElement} choice */
export function offerThemes(choice) {
  choice.value = readKept("localStorage", "theme");
  choice.addEventListener("change", () => {
    keep("localStorage", "theme", choice.value);
    wear(choice.value);
  });
  wear(choice.value);
}

/** @param {string} theme */
function wear(theme) {
  document.documentElement.dataset.theme = theme;
}
