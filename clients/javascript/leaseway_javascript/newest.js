/**
 * What one reader was not shown yet, the newest of each: a slow reader misses states between, and never the last one.
 *
 * Owns the waiting. What the values are is its owner's business.
 */

/** @template T */
export class Newest {
  /** @type {Map<string, T>} */
  #fresh = new Map();
  /** @type {{error: unknown} | null} */
  #failure = null;
  #wake = () => {};

  /** There is a newer value. @param {string} key @param {T} value */
  put(key, value) {
    this.#fresh.set(key, value);
    this.#wake();
  }

  /** Nothing more will come; what was not shown still is. @param {unknown} error */
  fail(error) {
    this.#failure ??= { error };
    this.#wake();
  }

  /**
   * The next value to show. Throws the failure once all was shown, and the signal's reason at once.
   *
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  async next(signal) {
    for (;;) {
      signal?.throwIfAborted();
      for (const [key, value] of this.#fresh) {
        this.#fresh.delete(key);
        return value;
      }
      if (this.#failure) throw this.#failure.error;
      await this.#more(signal);
    }
  }

  /** @param {AbortSignal} [signal] @returns {Promise<void>} */
  async #more(signal) {
    await new Promise((resolve) => {
      this.#wake = () => resolve(undefined);
      signal?.addEventListener("abort", this.#wake);
    });
    signal?.removeEventListener("abort", this.#wake);
  }
}
