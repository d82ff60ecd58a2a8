/** Questions that need an answer before something is done that cannot be undone. */

import { element } from "./element.js";

/**
 * Whether the person says yes. The focus is on the way out, so that a stray Enter does nothing.
 *
 * @param {string} question
 * @param {string} yes  what the button says
 * @param {AbortSignal} signal  what is asked about is no longer shown: the answer is no
 * @returns {Promise<boolean>}
 */
export function confirmed(question, yes, signal) {
  return new Promise((resolve) => {
    const dialog = element(
      "dialog",
      { class: "question", "aria-label": question, onclose: () => answered() },
      element("p", {}, question),
      element(
        "form",
        { method: "dialog", class: "row" },
        element("button", { class: "quiet", value: "", autofocus: true }, "No"),
        element("button", { class: "grave", value: "yes" }, yes),
      ),
    );
    const answered = () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    };
    signal.addEventListener("abort", () => dialog.close(), { once: true });
    document.body.append(dialog);
    dialog.showModal();
  });
}
