/** The way to post by hand: a form made from the queue's schema, or JSON. */

import { ConnectionLost } from "../../_client/errors.js";
import { element, fill } from "./element.js";
import { JsonField } from "./fields.js";
import { formFor } from "./schema-form.js";
import { faultText } from "./words.js";

/** @typedef {import("../../_client/errors.js").Fault} Fault */

/** What else is in an item that holds a picture. */
const BESIDE_PICTURE = 1_000;
const EXAMPLE = '{"hello": "world"}';

export class Posting {
  root;
  #queue;
  #posted;
  /** Null where none can be made of the schema. */
  #form;
  #json;
  #inJson;
  #fields = element("div");
  #fault = element("p", { class: "fault", role: "alert" });
  #told = element("p", { class: "hint", role: "status" });
  #key = element("input", { autocomplete: "off", maxlength: "200" });
  #priority = element("input", { type: "number", min: "-100", max: "100", step: "1", value: "0" });
  #delay = element("input", { type: "number", min: "0", step: "any", value: "0" });
  #post = element("button", {}, "Post the item");

  /**
   * @param {import("../../_client/client.js").Queue} queue
   * @param {Pick<import("./queue-screen.js").Facts, "schemas" | "limits" | "counts">} facts
   * @param {(id: string) => void} posted  told the id of what was posted
   */
  constructor(queue, { schemas, limits, counts }, posted) {
    this.#queue = queue;
    this.#posted = posted;
    this.#form = formFor(schemas.item, (limits.maxValueBytes ?? 0) - BESIDE_PICTURE);
    this.#inJson = element("input", { type: "checkbox", checked: !this.#form, onchange: () => void this.#turn() });
    this.#json = jsonField(schemas.item ? "" : EXAMPLE);
    this.#showFields();
    const isNew = counts !== null && Object.values(counts).every((count) => count === 0);
    this.root = this.#lay(isNew);
  }

  /** @param {boolean} open */
  #lay(open) {
    return element(
      "details",
      { class: "sheet wide", id: "posting", open },
      element("summary", {}, element("h2", {}, "Post an item")),
      element(
        "form",
        { onsubmit: (event) => void this.#submit(event) },
        this.#form && element("label", { class: "tick" }, this.#inJson, "Write it as JSON"),
        this.#fields,
        element(
          "div",
          { class: "row" },
          element("label", {}, "Key", element("small", {}, "the same key is the same item"), this.#key),
          element("label", {}, "Priority", element("small", {}, "from −100 to 100"), this.#priority),
          element("label", {}, "Delay", element("small", {}, "seconds"), this.#delay),
        ),
        this.#fault,
        this.#told,
        element("div", { class: "row" }, this.#post),
      ),
    );
  }

  /** Where the item is written now. */
  get #shown() {
    return this.#form && !this.#inJson.checked ? this.#form : this.#json;
  }

  #showFields() {
    fill(this.#fields, this.#shown.root);
  }

  /** What was filled in so far goes along into the JSON. */
  async #turn() {
    if (this.#inJson.checked) {
      const value = await this.#form?.read().catch(() => ({}));
      this.#json = jsonField(JSON.stringify(value, null, 2));
    }
    this.#showFields();
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    this.#fault.textContent = this.#told.textContent = "";
    this.#post.disabled = true; // A second click would post a second item.
    try {
      const { id, duplicate } = await this.#queue.ask("POST", "items", { body: await this.#body() });
      this.#complain([]);
      this.#told.textContent = duplicate ? `The key was known: ${id} is the item that was there.` : `Posted: ${id}.`;
      this.#posted(id);
    } catch (error) {
      this.#explain(/** @type {Error} */ (error));
    } finally {
      this.#post.disabled = false;
    }
  }

  async #body() {
    const item = await this.#shown.read();
    if (item === undefined) throw new SyntaxError("There is no item.");
    const delayMs = Math.round(this.#delay.valueAsNumber * 1000) || 0;
    const key = this.#key.value;
    return { item, ...(key && { key }), priority: this.#priority.valueAsNumber || 0, ...(delayMs && { delayMs }) };
  }

  /** @param {Error & {errors?: Fault[]}} error */
  #explain(error) {
    const unknown = error instanceof ConnectionLost ? "\nIf the request went out, the item may be in the queue." : "";
    const rest = this.#complain(error.errors ?? []);
    if (rest.length || !error.errors?.length) this.#fault.textContent = faultText({ message: error.message, errors: rest }) + unknown;
    else this.#fault.textContent = "It was not posted: see what is marked.";
  }

  /** Marks the fields of what was refused; gives the rest. @param {Fault[]} faults */
  #complain(faults) {
    return this.#form && !this.#inJson.checked ? this.#form.complain(faults) : faults;
  }
}

/** @param {string} text */
function jsonField(text) {
  return new JsonField({ title: "Item", schema: { description: "as JSON" }, path: "/item", required: true }, text);
}
