/**
 * The page's frames as a strip that grows to the right while it is measured: one bar a frame, as wide and as high
 * as the frame was long. A page that is blocked leaves a red block.
 *
 * Owns the drawing of one canvas. Its colours are the style sheet's.
 */

/** The width; what is older runs out on the left. */
const SHOWN_MS = 4_000;
/** A frame so long fills the height. */
const FULL_MS = 250;
/** A person notices a frame that is longer. */
const NOTICED_MS = 50;

export class Strip {
  #canvas;
  /** @type {number[]} */
  #frames = [];

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#canvas = canvas;
    // What was drawn goes with the size, and its colours with the scheme.
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  clear() {
    this.#frames = [];
    this.#draw();
  }

  /** @param {number} frameMs */
  add(frameMs) {
    this.#frames.push(frameMs);
    let sum = 0;
    const oldest = this.#frames.findLastIndex((each) => (sum += each) > SHOWN_MS);
    this.#frames.splice(0, oldest);
    this.#draw();
  }

  #draw() {
    const { clientWidth, clientHeight } = this.#canvas;
    const width = (this.#canvas.width = clientWidth * devicePixelRatio);
    const height = (this.#canvas.height = clientHeight * devicePixelRatio);
    const context = /** @type {CanvasRenderingContext2D} */ (this.#canvas.getContext("2d"));
    const style = getComputedStyle(this.#canvas);
    const shownMs = this.#frames.reduce((sum, each) => sum + each, 0);
    let right = Math.min(1, shownMs / SHOWN_MS) * width;
    for (const frameMs of this.#frames.toReversed()) {
      const wide = (frameMs / SHOWN_MS) * width;
      const high = Math.min(1, frameMs / FULL_MS) * height;
      context.fillStyle = style.getPropertyValue(frameMs > NOTICED_MS ? "--bad" : "--accent");
      context.fillRect(right - wide, height - high, Math.max(1, wide - 1), high);
      right -= wide;
    }
  }
}
