/**
 * What this tab has posted, so that its cards are there again after a reload, until the tab is closed.
 *
 * By the ids, and not by `mine`: where the queue is open to everyone there is nobody whose items these are; and what a
 * user posted from elsewhere is no picture of this page's.
 */

import { keep, readKept } from "../kept.js";

/** @typedef {{id: string, name: string}} Posting  an item's id, and the name of its file */

const MOST = 12;

/** The newest ones, the oldest first. @returns {Posting[]} */
export function postedBefore() {
  return JSON.parse(readKept("sessionStorage", "showcase") || "[]");
}

/** @param {Posting} posting */
export function remember(posting) {
  write([...postedBefore(), posting].slice(-MOST));
}

/** The item is no more. @param {string} id */
export function forget(id) {
  write(postedBefore().filter((each) => each.id !== id));
}

/** @param {Posting[]} postings */
function write(postings) {
  keep("sessionStorage", "showcase", JSON.stringify(postings));
}
