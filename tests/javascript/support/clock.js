/** Time that a test moves. `sleep` is what a closed laptop does: the time of day goes on, and no timer rings. */

export class ManualClock {
  #now = 1_000;
  #wall = 1_751_500_000_000;
  #timers = new Map();
  #next = 1;

  now = () => this.#now;
  wall = () => this.#wall;

  setTimeout = (action, ms) => {
    const timer = this.#next++;
    this.#timers.set(timer, { action, at: this.#now + ms });
    return timer;
  };

  clearTimeout = (timer) => {
    this.#timers.delete(timer);
  };

  /** Lets time pass; timers ring in their order, and what they began is carried on. */
  async pass(ms) {
    const until = this.#now + ms;
    for (let due = this.#due(until); due; due = this.#due(until)) {
      const [timer, { action, at }] = due;
      this.#wall += Math.max(0, at - this.#now);
      this.#now = Math.max(this.#now, at);
      this.#timers.delete(timer);
      action();
      await settled();
    }
    this.#wall += until - this.#now;
    this.#now = until;
    await settled();
  }

  sleep(ms) {
    this.#wall += ms;
  }

  /** Milliseconds until the next timer rings; infinity where none is set. */
  get next() {
    return Math.min(Infinity, ...[...this.#timers.values()].map(({ at }) => at - this.#now));
  }

  #due(until) {
    const due = [...this.#timers].filter(([, { at }]) => at <= until);
    return due.sort(([, a], [, b]) => a.at - b.at)[0];
  }
}

/** All that was begun and waits for no timer has been carried on. */
export async function settled() {
  for (let turn = 0; turn < 20; turn++) await null;
  await new Promise((resolve) => setImmediate(resolve));
}
