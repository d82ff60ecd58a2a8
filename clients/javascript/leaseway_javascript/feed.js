/** One who follows `mine` or `all`: a connection of its own, for as long as it reads. */

import { Forbidden } from "./errors.js";
import { Link } from "./link.js";
import { Newest } from "./newest.js";

/** @typedef {import("./protocol.js").View} View */

export class Feed {
  #link;
  /** @type {Newest<View>} */
  #reader = new Newest();

  /**
   * @param {import("./feed-state.js").FeedState} state
   * @param {import("./door.js").Door} door
   * @param {import("./outside.js").Outside} outside
   * @param {(view: View) => void} told  of each newer state, whether it is read or not
   */
  constructor(state, door, outside, told) {
    this.#link = new Link(door, "monitor", state, outside, {
      deliver: (events) => this.#deliver(events, told),
      online: () => {},
      offline: () => {},
      refused: (error) => this.end(error),
    });
  }

  /**
   * The states as they come, for ever.
   *
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<View, void, void>}
   */
  async *read(signal) {
    this.#link.start();
    try {
      for (;;) yield await this.#reader.next(signal);
    } finally {
      this.#link.close();
    }
  }

  /** Nothing more will be told; what was not read still is. @param {unknown} error */
  end(error) {
    this.#link.close();
    this.#reader.fail(error);
  }

  /** @param {import("./feed-state.js").FeedEvent[]} events @param {(view: View) => void} told */
  #deliver(events, told) {
    for (const event of events) {
      if (event.type === "refused") {
        this.end(new Forbidden(event.error.message));
        return;
      }
      this.#reader.put(event.view.id, event.view);
      told(event.view);
    }
  }
}
