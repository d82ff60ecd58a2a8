/** A picture that was posted to the queue: its card, from the post to the end. What a result holds is shown as text. */

import { make } from "./element.js";
import { seen } from "./seen.js";

/** @typedef {import("/_client/protocol.js").View} View */

const PICTURE = /^data:image\/(png|jpeg|webp);base64,[A-Za-z0-9+/=]+$/;
/** So much is shown of a result of another shape. */
const SHOWN = 500;

export class Posted {
  root;
  #status = make("span", { className: "status" });
  #bar;
  #line = make("p", { className: "line" });
  #outcome = make("div");

  /** @param {string} name @param {string} image  a data URL */
  constructor(name, image) {
    this.#bar = make("progress", { max: 100, value: 0, ariaLabel: `Progress of ${name}` });
    const thumbnail = make("img", { className: "thumbnail", alt: "", src: image, onerror: () => thumbnail.remove() });
    const title = make("h3", {}, make("span", { className: "name" }, name), this.#status);
    const facts = make("div", { className: "facts" }, title, this.#bar, this.#line, this.#outcome);
    this.root = make("li", { className: "card" }, thumbnail, facts);
  }

  /** Shows each state until the end. @param {import("/_client/index.js").Job} job */
  async follow(job) {
    for await (const view of job) this.#show(view);
  }

  /** @param {Error} error */
  fail(error) {
    this.#outcome.replaceChildren(make("p", { className: "fault" }, error.message));
  }

  /** @param {View} view */
  #show(view) {
    this.root.dataset.status = view.status;
    this.#status.textContent = view.status;
    const isDone = view.status === "finished";
    const stage = isDone ? null : view.progress?.stage;
    this.#line.textContent = [stage, view.worker && `worker ${view.worker}`].filter(Boolean).join(", ");
    this.#bar.value = isDone ? 100 : Number(view.progress?.percent) || 0;
    if (isDone) this.#outcome.replaceChildren(...resultOf(view.result));
    else if (view.error) this.fail(new Error(`${view.error.message}`));
  }
}

/** @param {any} result @returns {Node[]} */
function resultOf(result) {
  const { image, width, height, palette, luminance } = result ?? {};
  if (!Array.isArray(palette) || !PICTURE.test(image)) {
    return [make("p", { className: "line" }, `a result of another kind: ${JSON.stringify(result).slice(0, SHOWN)}`)];
  }
  const picture = make("img", { className: "result", alt: `Resized to ${width} × ${height} pixels`, src: image });
  const colours = palette.map((colour) => ({ colour: String(colour), share: 1 }));
  return [seen(colours, luminance), picture];
}
