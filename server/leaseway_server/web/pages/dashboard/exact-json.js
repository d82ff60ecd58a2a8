/** JSON text that a person wrote, as a value that is sent as it was written: JavaScript's own numbers have 53 bits. */

/** Of newer browsers. @type {{rawJSON?: (text: string) => unknown}} */
const { rawJSON } = /** @type {any} */ (JSON);
const parse = /** @type {(text: string, reviver: typeof asWritten) => any} */ (JSON.parse);

/** Throws a `SyntaxError` that says what is wrong. @param {string} text @returns {any} */
export function parseExact(text) {
  try {
    return parse(text, asWritten);
  } catch (error) {
    throw new SyntaxError(`This is not JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * A browser that does not tell how a number was written rounds it.
 *
 * @param {string} _name
 * @param {unknown} value
 * @param {{source?: string}} [context]
 */
function asWritten(_name, value, context) {
  const source = context?.source;
  return typeof value === "number" && source && rawJSON && String(value) !== source ? rawJSON(source) : value;
}
