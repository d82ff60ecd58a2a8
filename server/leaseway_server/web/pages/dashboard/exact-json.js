/** JSON text that a person wrote, as a value that is sent as it was written: JavaScript's own numbers have 53 bits. */

export function parseExact(text) {
  try {
    return JSON.parse(text, asWritten);
  } catch (error) {
    throw new SyntaxError(`This is not JSON: ${error.message}`);
  }
}

/** A browser that does not tell how a number was written rounds it. */
function asWritten(_name, value, context) {
  const source = context?.source;
  return typeof value === "number" && source && JSON.rawJSON && String(value) !== source ? JSON.rawJSON(source) : value;
}
