/**
 * The time of the server, in milliseconds since the epoch. All that is told here is on its clock (PROTOCOL.md §0), and
 * the browser's may be off by a day; so ages are counted from what the server's answers say of their time.
 */

let ahead = Date.now() - performance.now(); // The browser's own, until an answer came.

export function serverNow() {
  return performance.now() + ahead;
}

/**
 * An answer of the server came now. Its header `Date` has whole seconds: each answer narrows down where in them it is.
 *
 * @param {Response} response
 */
export function hearTime(response) {
  const told = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(told)) return;
  const earliest = told - performance.now();
  ahead = Math.min(Math.max(ahead, earliest), earliest + 1000);
}
