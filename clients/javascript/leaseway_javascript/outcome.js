/**
 * How an attempt ends: the last report of a worker about it (PROTOCOL.md §4). Pure.
 *
 * What the handler returned or threw goes in, the report's verb and members come out, in a form that the server takes.
 */

import { Permanent, Rejected, Release } from "./errors.js";
import { byteLength, checkKept } from "./protocol.js";

/** @typedef {{verb: "result" | "fail" | "release", members: Record<string, any>}} Outcome */

/** An error of a report is at most 32 KiB (§5); this leaves room for what is around it. */
const DETAIL_BYTES = 30_000;
/** Of 64; the error around it is one. */
const DETAIL_LEVELS = 63;
const MESSAGE_LENGTH = 1_000;
const CODE_LENGTH = 100;

/** The item is done. @param {any} value @returns {Outcome} */
export function resultOf(value) {
  return { verb: "result", members: { value: value === undefined ? null : value } };
}

/** The item goes back, claimable after the delay. @param {number} [delayMs] @returns {Outcome} */
export function releaseOf(delayMs) {
  return { verb: "release", members: delayMs === undefined ? {} : { delayMs: Math.max(0, Math.round(delayMs)) } };
}

/** What something that a handler threw means. Never throws. @param {unknown} thrown @returns {Outcome} */
export function thrownOf(thrown) {
  try {
    return meaningOf(thrown);
  } catch {
    return failOf(fault("what the handler threw cannot be read"), true);
  }
}

/** @param {any} thrown @returns {Outcome} */
function meaningOf(thrown) {
  if (thrown instanceof Permanent) return failOf(fault(thrown.message, thrown.code, thrown.detail), false);
  if (thrown instanceof Release) {
    const { delayMs } = thrown;
    if (delayMs === undefined || Number.isFinite(delayMs)) return releaseOf(delayMs);
    return failOf(fault("the handler released with a delayMs that is no number"), true);
  }
  const kind = thrown instanceof Error ? thrown.name : typeof thrown;
  return failOf(fault(thrown instanceof Error ? `${kind}: ${thrown.message}` : thrown, kind), true);
}

/**
 * What is said instead of a result or release that was refused; the same work would give the same result.
 *
 * @param {string} verb
 * @param {Rejected} error
 * @returns {Outcome}
 */
export function refusedOf(verb, error) {
  const told = fault(`the ${verb} was refused: ${error.message}`, error.code, { errors: error.errors });
  return failOf(told, verb !== "result");
}

/** @param {Record<string, any>} error @param {boolean} retryable @returns {Outcome} */
function failOf(error, retryable) {
  return { verb: "fail", members: { error, retryable } };
}

/**
 * An `error` member that the server takes: texts cut, `detail` left out where it cannot be sent.
 *
 * @param {unknown} message
 * @param {unknown} [code]
 * @param {any} [detail]
 */
function fault(message, code, detail) {
  /** @type {Record<string, any>} */
  const error = { message: text(message, MESSAGE_LENGTH) || "no message" };
  if (code !== undefined) error.code = text(code, CODE_LENGTH);
  if (detail !== undefined && canBeSent(detail)) error.detail = detail;
  return error;
}

/** @param {any} detail */
function canBeSent(detail) {
  try {
    checkKept(detail, DETAIL_LEVELS, "");
    const written = JSON.stringify(detail);
    return byteLength(written) <= DETAIL_BYTES && !/\\ud[89a-f]/.test(written);
  } catch {
    return false;
  }
}

/** Cut, and with halves of characters replaced. @param {unknown} value @param {number} length */
function text(value, length) {
  let said;
  try {
    said = String(value);
  } catch {
    said = typeof value;
  }
  return said.slice(0, length).replace(/\p{Surrogate}/gu, "\ufffd");
}
