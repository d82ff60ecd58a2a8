/**
 * The pictures that a person picked, dropped or had drawn, and what was seen in each.
 *
 * Keeps the `File`s and no bytes of them: a buffer that was handed to a Web Worker is gone, so each run reads its file
 * again.
 */

import { element, make } from "./element.js";
import { drawSamples } from "./samples.js";
import { seen } from "./seen.js";

const SAMPLES = 3;

export class Pictures {
  /** @type {Picture[]} */
  all = [];
  /** Called when there are others. */
  onchange = () => {};

  constructor() {
    const input = /** @type {HTMLInputElement} */ (element("files"));
    input.onchange = () => {
      this.#add([.../** @type {FileList} */ (input.files)]);
      input.value = ""; // The same file can be picked again.
    };
    element("samples").onclick = async () => this.#add(await drawSamples(SAMPLES));
    element("clear").onclick = () => this.#clear();
    this.#listenForDrops(element("drop"));
  }

  /** @param {HTMLElement} area */
  #listenForDrops(area) {
    const over = (/** @type {boolean} */ isOver) => area.classList.toggle("over", isOver);
    area.ondragover = (event) => {
      event.preventDefault();
      over(true);
    };
    area.ondragleave = () => over(false);
    area.ondrop = (event) => {
      event.preventDefault();
      over(false);
      this.#add([...(event.dataTransfer?.files ?? [])]);
    };
  }

  /** @param {File[]} files */
  #add(files) {
    const added = files.map((file) => new Picture(file));
    this.all.push(...added);
    element("pictures").append(...added.map((picture) => picture.root));
    this.onchange();
  }

  #clear() {
    for (const picture of this.all.splice(0)) picture.remove();
    this.onchange();
  }
}

/** One of them. */
export class Picture {
  file;
  root;
  #url;
  #facts = make("p", { className: "line" });
  #seen = make("div");
  /** What each thread saw, by its name. @type {Map<string, string>} */
  #said = new Map();

  /** @param {File} file */
  constructor(file) {
    this.file = file;
    this.#url = URL.createObjectURL(file);
    this.#facts.textContent = bytes(file.size);
    const onerror = () => thumbnail.remove();
    const thumbnail = make("img", { className: "thumbnail", alt: "", src: this.#url, onerror });
    const name = make("h3", { className: "name" }, file.name);
    const facts = make("div", { className: "facts" }, name, this.#facts, this.#seen);
    this.root = make("li", { className: "card" }, thumbnail, facts);
  }

  /** @param {string} thread @param {Awaited<ReturnType<import("./picture.js").look>>} found */
  show(thread, found) {
    this.#said.set(thread, JSON.stringify(found));
    const { width, height, colours, luminance } = found;
    this.#facts.textContent = `${width} × ${height} pixels, ${bytes(this.file.size)}`;
    this.#seen.replaceChildren(seen(colours, luminance), make("p", { className: "line" }, this.#verdict()));
  }

  /** @param {string} thread @param {Error} error */
  fail(thread, error) {
    this.#said.delete(thread);
    this.#seen.replaceChildren(make("p", { className: "fault" }, error.message));
  }

  remove() {
    URL.revokeObjectURL(this.#url);
    this.root.remove();
  }

  #verdict() {
    if (this.#said.size < 2) return `seen ${[...this.#said.keys()].join()}`;
    return new Set(this.#said.values()).size === 1 ? "both threads saw the same" : "the threads saw different things";
  }
}

/** @param {number} size */
function bytes(size) {
  return size < 1e6 ? `${Math.ceil(size / 1e3)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}
