/** What a post says: the item, and what may stand beside it. */

/**
 * What a post may say beside its item (PROTOCOL.md §5). Durations are milliseconds, times milliseconds since the epoch.
 *
 * @typedef {object} PostOptions
 * @property {string} [key]  the same key with an equal item is the same item
 * @property {number} [priority]  the higher the sooner, from −100 to 100
 * @property {number} [delayMs]
 * @property {number} [dueAt]
 * @property {number} [ttlMs]
 * @property {number} [maxAttempts]
 * @property {Record<string, any>} [meta]
 */

const OPTIONS = ["key", "priority", "delayMs", "dueAt", "ttlMs", "maxAttempts", "meta"];

/**
 * The body of a post. Throws a `TypeError` for an option that there is not, and where there is no item.
 *
 * @param {any} item
 * @param {PostOptions} options
 */
export function bodyOf(item, options) {
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) throw new TypeError(`a post has no option ${unknown}; there are ${OPTIONS.join(", ")}`);
  if (item === undefined) throw new TypeError("there is no item to post");
  return { item, ...options };
}
