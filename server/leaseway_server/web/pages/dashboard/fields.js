/**
 * One field of a form for each kind of value that a schema can ask for.
 *
 * A field has `root`, `path` (a JSON Pointer into the post, by which the server names what it refuses), `read()`, which
 * gives its value or undefined where it is left empty, and `complain(text)`. What it holds is checked by the server.
 */

import { element } from "./element.js";
import { parseExact } from "./exact-json.js";
import { drawSample, readAsUrl, shrink } from "./picture.js";

/** @typedef {Record<string, any>} Schema  a JSON Schema, or a part of one */

/**
 * What a field is made for.
 *
 * @typedef {object} Place
 * @property {string} title
 * @property {Schema} schema
 * @property {string} path
 * @property {boolean} required
 */

let made = 0;

/** A label, a control, what the schema says of it, and room for a fault. */
class Field {
  root;
  #control;
  #fault;

  /**
   * @param {Place} place
   * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} control
   * @param {Node[]} beside  what comes after it
   */
  constructor(place, control, ...beside) {
    const { title, schema, path, required } = place;
    const id = `field-${++made}`;
    this.path = path;
    this.required = required;
    this.#control = control;
    this.#fault = element("small", { class: "fault", id, role: "alert" });
    control.required = required && !(control instanceof HTMLSelectElement && control.options[0]?.value);
    control.setAttribute("aria-describedby", id);
    const about = [schema.description, required ? "" : "may be left empty"].filter(Boolean).join(" · ");
    this.root = element("div", { class: "field" }, element("label", {}, title, about && element("small", {}, about), control), beside, this.#fault);
  }

  /** What is wrong with it; empty where nothing is. @param {string} text */
  complain(text) {
    this.#fault.textContent = text;
    this.#control.setAttribute("aria-invalid", String(text !== ""));
  }
}

export class TextField extends Field {
  #input;

  /** @param {Place} place */
  constructor(place) {
    const { schema } = place;
    const input = element("input", { value: schema.default, maxlength: schema.maxLength, autocomplete: "off" });
    super(place, input);
    input.required &&= schema.minLength > 0;
    this.#input = input;
  }

  read() {
    return this.#input.value || this.required ? this.#input.value : undefined;
  }
}

export class NumberField extends Field {
  #input;

  /** @param {Place} place */
  constructor(place) {
    const { schema } = place;
    const { minimum, maximum, default: value } = schema;
    const input = element("input", { type: "number", min: minimum, max: maximum, value, step: schema.type === "integer" ? "1" : "any" });
    super(place, input);
    this.#input = input;
  }

  read() {
    return this.#input.value ? parseExact(this.#input.value) : undefined;
  }
}

/** One of a few values of any kind. */
export class ChoiceField extends Field {
  #select;
  #values;

  /** @param {Place} place @param {any[]} values */
  constructor(place, values) {
    const given = values.indexOf(place.schema.default);
    const options = values.map((value, at) => element("option", { value: at, selected: at === given }, textOf(value)));
    const select = element("select", {}, !place.required && element("option", { value: "" }, ""), options);
    super(place, select);
    this.#select = select;
    this.#values = values;
  }

  read() {
    return this.#select.value ? this.#values[Number(this.#select.value)] : undefined;
  }
}

/** Whatever no other field can make. */
export class JsonField extends Field {
  #area;

  /** @param {Place} place @param {string} [text]  what is in it at first */
  constructor(place, text = "") {
    const area = element("textarea", { rows: "3", spellcheck: "false" });
    area.value = text;
    super(place, area);
    this.#area = area;
  }

  read() {
    return this.#area.value.trim() ? parseExact(this.#area.value) : undefined;
  }
}

/** A picture as a data URL. One that is larger than an item may be is made smaller. */
export class PictureField extends Field {
  #file;
  #sample = "";
  #limit;

  /** @param {Place} place @param {number} limit  of a picture, in characters */
  constructor(place, limit) {
    const file = element("input", { type: "file", accept: "image/png,image/jpeg,image/webp" });
    const drawn = element("img", { class: "thumbnail", alt: "The drawn sample", hidden: true });
    const draw = element("button", { class: "quiet", type: "button" }, "No picture at hand? Draw a sample");
    super(place, file, element("div", { class: "row" }, draw, drawn));
    this.#file = file;
    this.#limit = limit;
    draw.addEventListener("click", () => this.#draw(drawn));
    file.addEventListener("change", () => {
      this.#sample = "";
      drawn.hidden = true;
    });
  }

  async read() {
    const file = this.#file.files?.[0];
    if (!file) return this.#sample || undefined;
    const url = await readAsUrl(file);
    return url.length <= this.#limit ? url : shrink(file, this.#limit);
  }

  /** @param {HTMLImageElement} drawn */
  #draw(drawn) {
    this.#sample = drawn.src = drawSample();
    drawn.hidden = false;
    this.#file.value = "";
    this.#file.required = false;
  }
}

/** @param {any} value */
function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
