/**
 * A form made from an item's JSON Schema. What no field can make is written as JSON; where that is the whole item, there
 * is no form.
 */

import { element } from "./element.js";
import { ChoiceField, JsonField, NumberField, PictureField, TextField } from "./fields.js";

/** @typedef {import("./fields.js").Schema} Schema */
/** @typedef {import("./fields.js").Place} Place */
/** @typedef {import("../../_client/errors.js").Fault} Fault */
/** @typedef {{document: Schema, limit: number}} Whole  what the part is of, and how long a picture may be in it */
/** @typedef {TextField | NumberField | ChoiceField | JsonField | PictureField | ObjectForm} AnyField */

/** Keywords with which the members alone do not say what is asked for. */
const BEYOND = ["anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "propertyNames", "dependentSchemas"];
const DEEPEST = 4;
const PICTURE = /^\^data:image\//;

/**
 * The form of an item; null where there is no schema, or none can be made of it.
 *
 * @param {unknown} schema
 * @param {number} limit  how long a picture may be, in characters
 */
export function formFor(schema, limit) {
  const document = /** @type {Schema} */ (schema);
  const whole = { title: "Item", schema: resolved(document, document), path: "/item", required: true };
  return isPlainObject(whole.schema) ? new ObjectForm(whole, { document, limit }, DEEPEST) : null;
}

class ObjectForm {
  /** @type {HTMLElement} */
  root;
  /** @type {[string, AnyField][]} */
  #fields;
  #required;

  /** @param {Place} place @param {Whole} whole @param {number} levels  of objects that may be in it as forms */
  constructor(place, whole, levels) {
    const { title, schema, path, required } = place;
    const needed = new Set(schema.required);
    this.#required = required;
    this.#fields = Object.entries(schema.properties).map(([name, member]) => {
      const below = `${path}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`;
      const inner = resolved(member, whole.document);
      return [name, fieldFor({ title: inner.title ?? name, schema: inner, path: below, required: needed.has(name) }, whole, levels - 1)];
    });
    const fields = this.#fields.map(([, field]) => field.root);
    this.root = levels === DEEPEST ? element("div", { class: "fields" }, fields) : element("fieldset", {}, element("legend", {}, title), fields);
  }

  /**
   * An object that may be left out is, where nothing in it is filled. A name such as `__proto__` is a name.
   *
   * @returns {Promise<Record<string, any> | undefined>}
   */
  async read() {
    /** @type {[string, any][]} */
    const members = [];
    for (const [name, field] of this.#fields) members.push([name, await field.read()]);
    const given = members.filter(([, value]) => value !== undefined);
    return given.length || this.#required ? Object.fromEntries(given) : undefined;
  }

  /**
   * Shows what was refused where it is; gives the faults that have no field.
   *
   * @param {Fault[]} faults
   * @returns {Fault[]}
   */
  complain(faults) {
    return this.#fields.reduce((rest, [, field]) => told(field, rest), faults);
  }
}

/** @param {AnyField} field @param {Fault[]} faults */
function told(field, faults) {
  if (field instanceof ObjectForm) return field.complain(faults);
  const own = faults.filter(({ path }) => path === field.path || path.startsWith(`${field.path}/`));
  field.complain(own.map(({ message }) => message).join("; "));
  return faults.filter((fault) => !own.includes(fault));
}

/** @param {Place} place @param {Whole} whole @param {number} levels @returns {AnyField} */
function fieldFor(place, whole, levels) {
  const { schema } = place;
  if ("const" in schema) return new ChoiceField(place, [schema.const]);
  if (Array.isArray(schema.enum)) return new ChoiceField(place, schema.enum);
  if (BEYOND.some((keyword) => keyword in schema)) return new JsonField(place);
  if (schema.type === "boolean") return new ChoiceField(place, [true, false]);
  if (schema.type === "integer" || schema.type === "number") return new NumberField(place);
  if (schema.type === "string") return PICTURE.test(schema.pattern) ? new PictureField(place, whole.limit) : new TextField(place);
  return levels > 0 && isPlainObject(schema) ? new ObjectForm(place, whole, levels) : new JsonField(place);
}

/** @param {Schema} schema */
function isPlainObject(schema) {
  return schema?.type === "object" && schema.properties !== undefined && !BEYOND.some((keyword) => keyword in schema);
}

/**
 * A schema without a `$ref`, which may lead to another within the document, and not in circles for ever.
 *
 * @param {unknown} schema
 * @param {Schema} document
 * @returns {Schema}
 */
function resolved(schema, document, steps = 16) {
  const found = /** @type {Schema} */ (typeof schema === "object" && schema !== null ? schema : {});
  if (typeof found.$ref !== "string" || steps === 0) return found;
  const { $ref, ...beside } = found;
  if (!$ref.startsWith("#/") && $ref !== "#") return {};
  const names = decodeURIComponent($ref).split("/").slice(1);
  /** @type {any} */
  const start = document;
  const target = names.reduce((at, name) => at?.[name.replace(/~1/g, "/").replace(/~0/g, "~")], start);
  return { ...resolved(target, document, steps - 1), ...beside };
}
