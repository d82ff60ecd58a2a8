/** Promises that an answer of the server settles, by the numbers of the messages that asked. */

/** @template T */
export class Pending {
  /** @type {Map<number, {resolve: (value: T) => void, reject: (error: unknown) => void}>} */
  #waiting = new Map();

  /** @param {number} ref @returns {Promise<T>} */
  wait(ref) {
    return new Promise((resolve, reject) => this.#waiting.set(ref, { resolve, reject }));
  }

  /** @param {number} ref @param {T} value */
  resolve(ref, value) {
    this.#take(ref)?.resolve(value);
  }

  /** @param {number} ref @param {unknown} error */
  reject(ref, error) {
    this.#take(ref)?.reject(error);
  }

  /** @param {unknown} error */
  rejectAll(error) {
    for (const ref of [...this.#waiting.keys()]) this.reject(ref, error);
  }

  /** @param {number} ref */
  #take(ref) {
    const one = this.#waiting.get(ref);
    this.#waiting.delete(ref);
    return one;
  }
}
