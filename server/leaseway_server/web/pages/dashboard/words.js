/** How figures, durations and faults read. Nothing is drawn here. */

import { SocketsBlocked } from "../../_client/errors.js";

/** So long a first connection may take, before it is told what hinders it. */
export const CONNECT_WITHIN_MS = 10_000;
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
const BLOCKED =
  "The server answers, but no live connection (WebSocket) comes about: a proxy in between seems to block it. " +
  "Nothing here changes by itself now. All else works, over HTTP; in a queue, Refresh shows what is new.";
const LATEST = 8_640_000_000_000_000; // Of a `Date`; the protocol's times may be later.

/** A text of somebody's in a sentence of ours, whose direction it must not turn. @param {string} text */
export function apart(text) {
  return `\u2068${text}\u2069`;
}

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
 * What keeps a connection from coming about, and how one goes on without it.
 *
 * @param {Error} error
 */
export function hindranceText(error) {
  return error instanceof SocketsBlocked ? BLOCKED : `No connection: ${error.message}. It is tried again by itself.`;
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
