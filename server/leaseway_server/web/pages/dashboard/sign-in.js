/** The screen that asks for a token. */

import { element } from "./element.js";

export class SignIn {
  root;
  #session;
  #done;
  #token = element("input", { type: "password", id: "token", required: true, autocomplete: "off", spellcheck: "false" });
  #remember = element("input", { type: "checkbox", id: "remember" });
  #fault = element("p", { class: "fault", role: "alert" });

  /**
   * @param {import("./session.js").Session} session
   * @param {string} reason  why a token is asked for
   * @param {() => void} done  called once one is in
   */
  constructor(session, reason, done) {
    this.#session = session;
    this.#done = done;
    this.root = element(
      "form",
      { class: "sheet narrow", onsubmit: (event) => this.#submit(event) },
      element("h1", {}, "Sign in"),
      element("p", { class: "hint" }, reason),
      element("label", {}, "Token", this.#token),
      element("label", { class: "tick" }, this.#remember, "Keep it in this tab until it is closed"),
      element("p", { class: "hint" }, "Otherwise it is gone when the page is. It never stands in an address."),
      this.#fault,
      element("div", { class: "row" }, element("button", {}, "Sign in")),
    );
  }

  focus() {
    this.#token.focus();
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    this.#fault.textContent = "";
    try {
      await this.#session.signIn(this.#token.value.trim(), this.#remember.checked);
    } catch (error) {
      this.#fault.textContent = /** @type {Error} */ (error).message;
      this.#token.select();
      return;
    }
    this.#done();
  }
}
