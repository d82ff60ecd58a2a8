#!/usr/bin/env node
// A worker in JavaScript for Node. It counts the words of a text:
//
//   leaseway work http://127.0.0.1:8787/demo --exec 'node clients/examples/exec/words.mjs'
import { readFileSync, writeSync } from "node:fs";

const item = JSON.parse(readFileSync(0, "utf8")); // The item, on standard input.

if (typeof item?.text !== "string") {
  console.error("the item has no text"); // The last line on standard error is the item's error.
  process.exit(65); // This item can never succeed; any other status but 0 is "try again".
}

const words = item.text.split(/\s+/).filter(Boolean);
writeSync(3, JSON.stringify({ percent: 50 }) + "\n"); // A progress record: a line on descriptor 3.

console.log(JSON.stringify({ words: words.length })); // The result, on standard output.
