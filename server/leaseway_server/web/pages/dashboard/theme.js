/** Light or dark: as the system asks, until the person says otherwise; then in this browser for good. */

import { keep, readKept } from "./kept.js";

export function offerThemes(choice) {
  choice.value = readKept("localStorage", "theme");
  choice.addEventListener("change", () => {
    keep("localStorage", "theme", choice.value);
    wear(choice.value);
  });
  wear(choice.value);
}

function wear(theme) {
  document.documentElement.dataset.theme = theme;
}
