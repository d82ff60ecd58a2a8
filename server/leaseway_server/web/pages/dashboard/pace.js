/**
 * Does a thing again when it is asked to, and not more often than its pace: what is asked meanwhile is done once, after.
 *
 * So that a page asks the server for no more, however busy the queue is; and nothing while nobody looks.
 */

export class Pace {
  #act;
  #everyMs;
  #signal;
  #busy = false;
  #asked = false;

  /** `act` is asynchronous and handles its own errors. */
  constructor(act, everyMs, signal) {
    this.#act = act;
    this.#everyMs = everyMs;
    this.#signal = signal;
    document.addEventListener("visibilitychange", () => this.#go(), { signal });
  }

  ask() {
    this.#asked = true;
    void this.#go();
  }

  async #go() {
    if (this.#busy || !this.#asked || document.hidden || this.#signal.aborted) return;
    this.#asked = false;
    this.#busy = true;
    await this.#act();
    setTimeout(() => {
      this.#busy = false;
      void this.#go();
    }, this.#everyMs);
  }
}
