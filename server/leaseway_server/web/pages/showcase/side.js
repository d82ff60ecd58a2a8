/**
 * One of the two sides: the pictures are looked at on one thread, and the page's frames are measured meanwhile.
 *
 * Which thread it is, its `look` knows; the rest is the same for both.
 */

import { measured } from "./frames.js";
import { Strip } from "./strip.js";

/** @typedef {import("./pictures.js").Picture} Picture */

/** @typedef {(bytes: ArrayBuffer) => ReturnType<typeof import("./picture.js").look>} Look */

/** A page that shows nothing new for so long feels broken. */
const BAD_MS = 100;

export class Side {
  #thread;
  #look;
  #strip;
  #figures;

  /**
   * @param {HTMLElement} root  has a canvas, and an output for each figure
   * @param {string} thread  for people, as "in a Web Worker"
   * @param {Look} look
   */
  constructor(root, thread, look) {
    this.#thread = thread;
    this.#look = look;
    this.#strip = new Strip(/** @type {HTMLCanvasElement} */ (root.querySelector("canvas")));
    const figure = (/** @type {string} */ name) => root.querySelector(`[data-figure=${name}]`);
    this.#figures = (/** @type {string} */ name) => /** @type {HTMLElement} */ (figure(name));
  }

  /**
   * Looks at each picture, one after the other. Gives a sentence on how the page was meanwhile.
   *
   * @param {Picture[]} pictures
   */
  async run(pictures) {
    this.#strip.clear();
    const { value: bytes, smoothness } = await measured(
      () => this.#lookAt(pictures),
      (frameMs, soFar) => {
        this.#strip.add(frameMs);
        this.#show(soFar);
      },
    );
    this.#show(smoothness);
    this.#figures("left").textContent = `${whole(bytes.left)} of ${whole(bytes.read)} bytes`;
    return `Work ${this.#thread}: the longest frame of the page was ${whole(smoothness.worstMs)} ms.`;
  }

  /** How many bytes were read, and how many of them are still the page's after the look. @param {Picture[]} pictures */
  async #lookAt(pictures) {
    const sums = { read: 0, left: 0 };
    for (const picture of pictures) {
      try {
        const bytes = await picture.file.arrayBuffer();
        sums.read += bytes.byteLength;
        const found = await this.#look(bytes);
        sums.left += bytes.byteLength;
        picture.show(this.#thread, found);
      } catch (error) {
        picture.fail(this.#thread, /** @type {Error} */ (error));
      }
    }
    return sums;
  }

  /** @param {import("./frames.js").Smoothness} smoothness */
  #show({ ms, perSecond, worstMs }) {
    this.#figures("time").textContent = `${whole(ms)} ms`;
    this.#figures("rate").textContent = whole(perSecond);
    this.#figures("worst").textContent = `${whole(worstMs)} ms`;
    this.#figures("worst").classList.toggle("fault", worstMs > BAD_MS);
  }
}

/** @param {number} value */
function whole(value) {
  return Math.round(value).toLocaleString("en");
}
