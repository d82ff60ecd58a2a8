/**
 * How smooth the page is: the frames that it shows, and how long each was on the screen.
 *
 * Owns the measuring; what is drawn of it is `strip.js`'s.
 */

/**
 * What the page was like while something went on. `ms` is how long it took, `worstMs` the longest frame in it.
 *
 * @typedef {object} Smoothness
 * @property {number} ms
 * @property {number} frames
 * @property {number} perSecond
 * @property {number} worstMs
 */

/**
 * Does something and measures the page meanwhile: from a frame before to the first frame after it.
 *
 * A page that is hidden shows no frames: that time counts as none. `act` may throw; the measuring ends then.
 *
 * @template T
 * @param {() => Promise<T>} act
 * @param {(frameMs: number, soFar: Smoothness) => void} show  called in each frame
 * @returns {Promise<{value: T, smoothness: Smoothness}>}
 */
export async function measured(act, show) {
  const meter = new Meter(show);
  await nextFrame();
  meter.start();
  try {
    const value = await act();
    const ms = meter.elapsed;
    await nextFrame();
    return { value, smoothness: { ...meter.smoothness, ms } };
  } finally {
    meter.stop();
  }
}

class Meter {
  #show;
  #request = 0;
  #began = 0;
  /** When the frame before began; 0 where there was none, or not a visible one. */
  #last = 0;
  #frames = 0;
  #seenMs = 0;
  #worstMs = 0;
  #hidden = () => {
    this.#last = 0;
  };

  /** @param {(frameMs: number, soFar: Smoothness) => void} show */
  constructor(show) {
    this.#show = show;
  }

  start() {
    this.#began = this.#last = performance.now();
    document.addEventListener("visibilitychange", this.#hidden);
    this.#request = requestAnimationFrame(this.#frame);
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#hidden);
    cancelAnimationFrame(this.#request);
  }

  get elapsed() {
    return performance.now() - this.#began;
  }

  /** @returns {Smoothness} */
  get smoothness() {
    const perSecond = this.#seenMs ? (this.#frames * 1000) / this.#seenMs : 0;
    return { ms: this.elapsed, frames: this.#frames, perSecond, worstMs: this.#worstMs };
  }

  // The time that a frame is told is the screen's, which a blocked page learns late: the clock tells when it ran.
  #frame = () => {
    const now = performance.now();
    if (this.#last) this.#count(now - this.#last);
    this.#last = now;
    this.#request = requestAnimationFrame(this.#frame);
  };

  /** @param {number} frameMs */
  #count(frameMs) {
    this.#frames += 1;
    this.#seenMs += frameMs;
    this.#worstMs = Math.max(this.#worstMs, frameMs);
    this.#show(frameMs, this.smoothness);
  }
}

/** The next frame; at once where the page shows none. @returns {Promise<unknown>} */
function nextFrame() {
  return document.hidden ? Promise.resolve() : new Promise((resolve) => requestAnimationFrame(resolve));
}
