/** Expectations with placeholders, as transcripts write them (schemas/README.md, Matching). Knows no socket. */

import { isDeepStrictEqual } from "node:util";

const WORDS = new Set(["$any", "$same", "$above", "$absent", "$capture"]);
const KINDS = {
  time: (value) => Number.isInteger(value) && value >= 0,
  number: Number.isInteger,
  text: (value) => typeof value === "string",
  object: isObject,
  list: Array.isArray,
};
const MISSING = Symbol("missing");

/** The values that a transcript knows by name. */
export class Names {
  #values;

  constructor(values = {}) {
    this.#values = new Map(Object.entries(values));
  }

  /** What is really said: each `{"$same": name}` replaced by its value. */
  fill(said) {
    if (Array.isArray(said)) return said.map((one) => this.fill(one));
    if (!isObject(said)) return said;
    if (isDeepStrictEqual(Object.keys(said), ["$same"])) return this.#values.get(said.$same);
    return Object.fromEntries(Object.entries(said).map(([name, member]) => [name, this.fill(member)]));
  }

  /** A path with each `{name}` replaced by its value. */
  write(path) {
    return path.replace(/\{([^}]+)\}/g, (_, name) => this.#values.get(name));
  }

  /** Holds a message against what is expected, and remembers what it captures; else throws. */
  match(wanted, got) {
    if (!isObject(wanted) || !isObject(got) || isPlaceholder(wanted)) {
      if (!this.#meets(wanted, got)) throw new Error(`not as told: ${JSON.stringify(got)}`);
      return;
    }
    for (const [name, member] of Object.entries(wanted)) {
      const found = Object.hasOwn(got, name) ? got[name] : MISSING;
      if (!this.#meets(member, found)) throw new Error(`${name} is not as told, in ${JSON.stringify(got)}`);
    }
  }

  #meets(wanted, got) {
    if (isPlaceholder(wanted)) return this.#meetsPlaceholder(wanted, got);
    if (isObject(wanted) && isObject(got)) {
      const names = Object.keys(wanted);
      const same = names.length === Object.keys(got).length && names.every((name) => Object.hasOwn(got, name));
      return same && names.every((name) => this.#meets(wanted[name], got[name]));
    }
    if (Array.isArray(wanted) && Array.isArray(got)) {
      return wanted.length === got.length && wanted.every((one, index) => this.#meets(one, got[index]));
    }
    return wanted === got;
  }

  #meetsPlaceholder(wanted, got) {
    if ("$absent" in wanted) return got === MISSING;
    const meets =
      got !== MISSING &&
      (!("$any" in wanted) || KINDS[wanted.$any](got)) &&
      (!("$same" in wanted) || this.#meets(this.#values.get(wanted.$same), got)) &&
      (!("$above" in wanted) || got > this.#values.get(wanted.$above));
    if (meets && "$capture" in wanted) this.#values.set(wanted.$capture, got);
    return meets;
  }
}

function isPlaceholder(value) {
  return isObject(value) && Object.keys(value).length > 0 && Object.keys(value).every((name) => WORDS.has(name));
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
