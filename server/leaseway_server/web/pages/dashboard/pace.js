/**
 * Does a thing again when it is asked to, and not more often than its pace: what is asked meanwhile is done once, after.
 *
 * So that a page asks the server for no more, however busy the queue is; the less, the longer an answer takes; and for
 * nothing while nobody looks.
 */

/** Of the time, at most one part in so many is spent waiting for answers. */
const RESTRAINT = 10;

export class Pace {
  #act;
  #everyMs;
  #signal;
  #busy = false;
  #asked = false;

  /** @param {() => Promise<void>} act  handles its own errors @param {number} everyMs @param {AbortSignal} signal */
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
    const began = performance.now();
    await this.#act();
    const rest = Math.max(this.#everyMs, RESTRAINT * (performance.now() - began));
    setTimeout(() => {
      this.#busy = false;
      void this.#go();
    }, rest);
  }
}
