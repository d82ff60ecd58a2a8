/** How figures, durations and faults read. Nothing is drawn here. */

export const STATUSES = ["pending", "processing", "finished", "failed", "dead", "cancelled", "expired"];
export const LABELS = ["scheduled", "retrying"];
export const ENDED = new Set(STATUSES.slice(2));
export const RETRIABLE = new Set(STATUSES.slice(3));
/** @type {[number, string][]} */
const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];
const LATEST = 8_640_000_000_000_000; // Of a `Date`; the protocol's times may be later.

/** @param {number} value */
export function number(value) {
  return value.toLocaleString("en");
}

/** Milliseconds in the largest unit that has a whole one, and the next: `3 min 20 s`. @param {number} ms */
export function duration(ms) {
  const rounded = Math.max(0, Math.round(ms));
  const first = UNITS.findIndex(([unit]) => rounded >= unit);
  if (first < 0) return `${rounded} ms`;
  if (rounded < 10_000) return `${Number((rounded / 1000).toFixed(1))} s`;
  const parts = UNITS.slice(first, first + 2).map(([unit, name], at) => {
    const many = Math.floor((at ? rounded % UNITS[first][0] : rounded) / unit);
    return many ? `${many} ${name}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

/** A time of the server as a day and time here. @param {number} at */
export function moment(at) {
  return new Date(Math.min(at, LATEST)).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** @param {number} count */
export function bytes(count) {
  return count < 10_000 ? `${number(count)} bytes` : `${number(Math.round(count / 1024))} KiB`;
}

/**
 * What went wrong, for a person: the places that were refused, one a line.
 *
 * @param {{message: string, errors?: import("../../_client/errors.js").Fault[]}} error
 */
export function faultText(error) {
  const places = (error.errors ?? []).map(({ path, message }) => (path ? `${path}: ${message}` : message));
  return places.length ? places.join("\n") : error.message;
}
