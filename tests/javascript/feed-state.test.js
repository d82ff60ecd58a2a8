import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { FeedState } from "../../clients/javascript/leaseway_javascript/feed-state.js";
import { ID, OTHER, view } from "./support/wire.js";

/** @type {FeedState} */
let state;
beforeEach(() => {
  state = new FeedState("mine");
  state.opened({}, 0);
});

const sent = () => {
  const all = [];
  for (let text = state.nextMessage(); text !== null; text = state.nextMessage()) all.push(JSON.parse(text));
  return all.map(({ subscribe, unsubscribe }) => (subscribe ? { subscribe } : { unsubscribe }));
};
const told = () => state.takeEvents().map(({ view: { id, rev, status } }) => [id, rev, status]);
const name = (n) => n.toString(16).padStart(16, "0");

function gap() {
  state.lost();
  sent();
  state.takeEvents();
  state.opened({}, 0);
}

test("it follows, and tells each state once", () => {
  assert.deepEqual(sent(), [{ subscribe: { mine: true } }]);
  for (const rev of [1, 1, 2, 1]) state.received(view(ID, rev), 0);
  assert.deepEqual(told(), [
    [ID, 1, "pending"],
    [ID, 2, "pending"],
  ]);
});

test("an end that the server tells again after a gap is told once", () => {
  state.received(view(ID, 3, "finished"), 0);
  gap();
  assert.deepEqual(sent(), [{ subscribe: { mine: true } }]);
  state.received(view(ID, 3, "finished"), 0);
  assert.deepEqual(told(), []);
});

test("what was open before a gap is asked for by its id, since its end may have been fetched elsewhere", () => {
  state.received(view(ID, 1), 0);
  state.received(view(OTHER, 1), 0);
  gap();
  assert.deepEqual(sent(), [{ subscribe: { mine: true } }, { subscribe: [ID, OTHER] }]);
  state.received(view(ID, 4, "failed"), 0);
  state.received(view(OTHER, 1), 0);
  assert.deepEqual(told(), [[ID, 4, "failed"]]);
  assert.deepEqual(sent(), [{ unsubscribe: [ID] }, { unsubscribe: [OTHER] }]);
  gap();
  assert.deepEqual(sent(), [{ subscribe: { mine: true } }, { subscribe: [OTHER] }]);
});

test("of many, a hundred are asked for at a time, and of those that are gone nothing hangs", () => {
  for (let n = 0; n < 150; n++) state.received(view(name(n), 1), 0);
  gap();
  assert.equal(sent()[1].subscribe.length, 100);
  assert.equal(state.deadline, 30_000);
  for (let n = 0; n < 99; n++) state.received(view(name(n), 1), 0);
  state.tick(29_999);
  assert.equal(sent().filter(({ subscribe }) => subscribe).length, 0);
  state.tick(30_000);
  const [gone, more] = sent();
  assert.deepEqual(gone, { unsubscribe: [name(99)] });
  assert.equal(more.subscribe.length, 50);
});

test("what an administrator retries is open again, and can end again", () => {
  state.received(view(ID, 3, "dead"), 0);
  state.received(view(ID, 4), 0);
  state.received(view(ID, 6, "finished"), 0);
  assert.deepEqual(
    told().map(([, rev]) => rev),
    [3, 4, 6],
  );
});

test("it remembers a bounded number", () => {
  for (let n = 0; n < 10_001; n++) state.received(view(name(n), 1, "finished"), 0);
  state.takeEvents();
  state.received(view(name(1), 1, "finished"), 0);
  assert.deepEqual(told(), []);
  state.received(view(name(0), 1, "finished"), 0);
  assert.equal(told().length, 1);
});

test("a refusal is told, one of something else is not", () => {
  state.received({ type: "error", id: null, code: "not-allowed", errors: [], ref: 1 }, 0);
  state.received({ type: "error", id: null, code: "not-allowed", errors: [], ref: 7 }, 0);
  assert.deepEqual(
    state.takeEvents().map(({ type }) => type),
    ["refused"],
  );
});
