/** The showcase: ties pictures, both sides and the queue to the page. Nothing is decided here. */

import { hostInWebWorker } from "/_client/index.js";

import { Breaking } from "./breaking.js";
import { element } from "./element.js";
import { look } from "./picture.js";
import { Pictures } from "./pictures.js";
import { Side } from "./side.js";
import { ThroughQueue } from "./through-queue.js";

const pictures = new Pictures();
const lookInWebWorker = hostInWebWorker(new URL("./look.js", import.meta.url));
const here = new Side(element("here"), "on this page's thread", look);
const there = new Side(element("there"), "in a Web Worker", (bytes) => lookInWebWorker({ bytes }));
new Breaking();

const runs = /** @type {HTMLFieldSetElement} */ (element("runs"));
pictures.onchange = () => (runs.disabled = pictures.all.length === 0);
pictures.onchange();

/** Runs one side after the other, and tells what came of it. @param {Side[]} sides */
async function run(...sides) {
  runs.disabled = true;
  element("verdict").textContent = "At work …";
  const told = [];
  for (const side of sides) told.push(await side.run(pictures.all));
  element("verdict").textContent = told.join(" ");
  pictures.onchange();
}

element("run-both").onclick = () => run(here, there);
element("run-here").onclick = () => run(here);
element("run-there").onclick = () => run(there);

void new ThroughQueue(pictures).connect();
