/** What a crash or a hang of a Web Worker costs the page: nothing. It ends the attempt, and a person can see it. */

import { hostInWebWorker } from "/_client/index.js";

import { element } from "./element.js";
import { measured } from "./frames.js";

/** A Web Worker that gives no sign for so long is ended, milliseconds: short, since somebody looks on. */
const HANG_MS = 2_000;

export class Breaking {
  #break = hostInWebWorker(new URL("./break.js", import.meta.url), { hangMs: HANG_MS });

  constructor() {
    element("crash").onclick = () => this.#run("crash");
    element("hang").onclick = () => this.#run("hang");
  }

  /** @param {"crash" | "hang"} how */
  async #run(how) {
    const buttons = /** @type {HTMLFieldSetElement} */ (element("breaks"));
    buttons.disabled = true;
    element("broken").textContent = how === "hang" ? "It hangs; the page does not …" : "It crashes …";
    const { value: error, smoothness } = await measured(
      () => this.#break({ how }).catch((thrown) => thrown),
      () => {},
    );
    const { ms, worstMs } = smoothness;
    element("broken").textContent =
      `${error.name}: ${error.message}. The attempt ended after ${Math.round(ms)} ms, ` +
      `the longest frame of the page was ${Math.round(worstMs)} ms.`;
    buttons.disabled = false;
  }
}
