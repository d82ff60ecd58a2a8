/** Who waits for which items: the readers of each, and the subscriptions that live as long as they do. */

import { Newest } from "./newest.js";
import { ended } from "./protocol.js";

/** @typedef {import("./watch-state.js").Watched} Watched */
/** @typedef {import("./protocol.js").View} View */

export class Following {
  #state;
  #wake;
  #now;
  /** Why nothing can be waited for any more. @type {unknown} */
  #over = null;
  /** @type {Map<Watched, Set<Newest<View>>>} */
  #readers = new Map();

  /**
   * @param {import("./watch-state.js").WatchState} state
   * @param {() => void} wake  the state has something to send
   * @param {() => number} now
   */
  constructor(state, wake, now) {
    this.#state = state;
    this.#wake = wake;
    this.#now = now;
  }

  /**
   * The states of these items until all have ended.
   *
   * @param {Watched[]} items
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<View, void, void>}
   */
  async *follow(items, signal) {
    const reader = this.#enter(items);
    try {
      for (let open = items.length; open > 0;) {
        const view = await reader.next(signal);
        if (ended(view)) open -= 1;
        yield view;
      }
    } finally {
      this.#leave(items, reader);
    }
  }

  /** There is a newer view of the item. @param {Watched} watched */
  changed(watched) {
    for (const reader of this.#readers.get(watched) ?? []) reader.put(watched.id, /** @type {View} */ (watched.view));
  }

  /** Nothing more will be told of the item. @param {Watched} watched @param {unknown} error */
  fail(watched, error) {
    for (const reader of this.#readers.get(watched) ?? []) reader.fail(error);
  }

  /** Nothing more will be told of any. @param {unknown} error */
  end(error) {
    this.#over = error;
    for (const watched of this.#readers.keys()) this.fail(watched, error);
  }

  /** @param {Watched[]} items */
  #enter(items) {
    /** @type {Newest<View>} */
    const reader = new Newest();
    for (const watched of items) {
      if (watched.view) reader.put(watched.id, watched.view);
      this.#readers.set(watched, (this.#readers.get(watched) ?? new Set()).add(reader));
    }
    if (this.#over) reader.fail(this.#over);
    else this.#state.watch(items, this.#now());
    this.#wake();
    return reader;
  }

  /** The last reader who leaves ends the subscription. @param {Watched[]} items @param {Newest<View>} reader */
  #leave(items, reader) {
    for (const watched of items) {
      const readers = this.#readers.get(watched);
      readers?.delete(reader);
      if (readers?.size) continue;
      this.#readers.delete(watched);
      this.#state.unwatch(watched);
    }
    this.#wake();
  }
}
