import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { WatchState } from "../../clients/javascript/leaseway_javascript/watch-state.js";
import { ID, OTHER, view } from "./support/wire.js";

const HELLO = { maxMessageBytes: 1_048_576 };
/** @type {WatchState} */
let state;
beforeEach(() => {
  state = new WatchState();
  state.opened(HELLO, 0);
});

const sent = () => {
  const all = [];
  for (let text = state.nextMessage(); text !== null; text = state.nextMessage()) all.push(JSON.parse(text));
  return all;
};
const kinds = () => state.takeEvents().map(({ type }) => type);

function posted(body = { item: 1 }, answer = {}) {
  const ref = state.post(body);
  sent();
  state.received({ type: "posted", id: ID, status: "pending", duplicate: false, ref, ...answer }, 0);
  return state.takeEvents()[0];
}

test("a post is said once and answered", () => {
  const ref = state.post({ item: { a: 1 } });
  assert.deepEqual(sent(), [{ post: { item: { a: 1 }, subscribe: true }, ref }]);
  assert.deepEqual(sent(), []);
  state.received({ type: "posted", id: ID, status: "pending", duplicate: false, ref }, 0);
  const [event] = state.takeEvents();
  assert.equal(event.type, "posted");
  assert.equal(event.watched.id, ID);
});

test("a post without a key whose socket dropped is unknown, one with a key is said again in its order", () => {
  const refs = [state.post({ item: 1, key: "a" }), state.post({ item: 2 }), state.post({ item: 3, key: "c" })];
  sent();
  const late = state.post({ item: 4 });
  state.lost();
  assert.deepEqual(state.takeEvents(), [{ type: "post-lost", ref: refs[1] }]);
  state.opened(HELLO, 0);
  assert.deepEqual(
    sent().map(({ ref }) => ref),
    [refs[0], refs[2], late],
  );
});

test("a post that was given up before it was sent was not posted", () => {
  const never = state.post({ item: 1 });
  assert.equal(state.forgetPost(never), true);
  assert.deepEqual(sent(), []);
  const once = state.post({ item: 1 });
  sent();
  assert.equal(state.forgetPost(once), false);
  state.received({ type: "posted", id: ID, duplicate: false, ref: once }, 0);
  assert.deepEqual(
    sent().map(({ unsubscribe }) => unsubscribe),
    [[ID]],
  );
  assert.deepEqual(kinds(), []);
});

test("a refused post is told with its places", () => {
  const ref = state.post({ item: 1 });
  state.received({ type: "error", id: null, code: "schema", errors: [{ path: "/item", message: "no" }], ref }, 0);
  const [event] = state.takeEvents();
  assert.equal(event.type, "post-refused");
  assert.deepEqual(event.error.errors, [{ path: "/item", message: "no" }]);
});

test("states come once each, stale ones not at all, and the end ends the subscription", () => {
  const { watched } = posted();
  for (const rev of [1, 2, 2, 1]) state.received(view(ID, rev), 0);
  assert.deepEqual(kinds(), ["changed", "changed"]);
  state.received(view(ID, 3, "finished"), 0);
  state.received(view(ID, 3, "finished"), 0);
  assert.deepEqual(kinds(), ["changed"]);
  assert.equal(watched.ended, true);
  assert.deepEqual(
    sent().map(({ unsubscribe }) => unsubscribe),
    [[ID]],
  );
  assert.equal(state.interested, false);
});

test("a new socket subscribes anew, and what was seen before is not told again", () => {
  posted();
  state.received(view(ID, 2), 0);
  state.lost();
  state.takeEvents();
  state.opened(HELLO, 0);
  assert.deepEqual(
    sent().map(({ subscribe }) => subscribe),
    [[ID]],
  );
  state.received(view(ID, 2), 0);
  assert.deepEqual(kinds(), []);
  state.received(view(ID, 5, "dead"), 0);
  assert.deepEqual(kinds(), ["changed"]);
});

test("what a live server tells nothing of is given up, and only that", () => {
  const [gone, slow] = [state.item(ID), state.item(OTHER)];
  state.watch([gone, slow], 0);
  state.received(view(OTHER, 1), 1_000);
  assert.equal(state.deadline, 30_000);
  state.tick(29_999);
  assert.deepEqual(kinds(), ["changed"]);
  state.tick(30_000);
  assert.deepEqual(state.takeEvents(), [{ type: "not-watched", watched: gone, error: null }]);
  assert.equal(state.deadline, Infinity);
});

test("time without a connection gives nothing up", () => {
  state.watch([state.item(ID)], 0);
  state.lost();
  assert.equal(state.deadline, Infinity);
  state.tick(1e9);
  assert.deepEqual(kinds(), []);
  state.opened(HELLO, 1e9);
  assert.equal(state.deadline, 1e9 + 30_000);
});

test("a refused subscription is told to who wanted it", () => {
  const [mine, others] = [state.item(ID), state.item(OTHER)];
  state.watch([others], 0);
  sent();
  state.watch([mine], 0);
  const [{ ref }] = sent();
  state.received({ type: "error", id: null, code: "limit", errors: [], ref }, 0);
  const events = state.takeEvents();
  assert.deepEqual(
    events.map(({ watched }) => watched),
    [mine],
  );
  assert.equal(events[0].error.code, "limit");
});

test("a duplicate is subscribed to, since its state may not be told else", () => {
  posted({ item: 1, key: "k" }, { duplicate: true });
  assert.deepEqual(
    sent().map(({ subscribe }) => subscribe),
    [[ID]],
  );
});

test("of many posts only the first thousand are watched from the start", () => {
  for (let n = 0; n < 1_002; n++) state.post({ item: n });
  assert.equal(sent().filter(({ post }) => post.subscribe).length, 1_000);
});

test("many ids are subscribed to in portions", () => {
  const items = Array.from({ length: 2_500 }, (_, n) => state.item(n.toString(16).padStart(16, "0")));
  state.watch(items, 0);
  assert.deepEqual(
    sent().map(({ subscribe }) => subscribe.length),
    [1_000, 1_000, 500],
  );
});

test("one item is one object until it has ended", () => {
  const first = state.item(ID);
  assert.equal(state.item(ID), first);
  state.seen(first, view(ID, 9, "failed"));
  assert.notEqual(state.item(ID), first);
  assert.throws(() => state.item("ABC"), TypeError);
});

test("a cancel is said again until it is answered, and answered once", () => {
  const ref = state.cancel(ID);
  assert.deepEqual(sent(), [{ cancel: [ID], ref }]);
  state.lost();
  state.opened(HELLO, 0);
  assert.deepEqual(sent(), [{ cancel: [ID], ref }]);
  const ack = { type: "cancel-ack", id: ID, accepted: true, status: "cancelled", index: 0, ref };
  state.received(ack, 0);
  state.received(ack, 0);
  assert.deepEqual(state.takeEvents(), [{ type: "cancelled", ref, ack }]);
  state.lost();
  state.opened(HELLO, 0);
  assert.deepEqual(sent(), []);
});

test("a cancel that may not be is refused", () => {
  const ref = state.cancel(ID);
  state.received({ type: "error", id: null, code: "not-allowed", errors: [], ref }, 0);
  assert.deepEqual(kinds(), ["cancel-refused"]);
});

test("the probe's answer is nobody's, whichever it is", () => {
  const { ref } = JSON.parse(state.probe());
  state.received({ type: "cancel-ack", id: "0000000000000000", accepted: false, reason: "unknown", ref }, 0);
  state.received({ type: "error", id: null, code: "not-allowed", errors: [], ref: JSON.parse(state.probe()).ref }, 0);
  assert.deepEqual(kinds(), []);
});

test("figures are asked for as long as they are wanted, on a new socket too", () => {
  state.showStats(true);
  state.showStats(true);
  assert.deepEqual(
    sent().map(({ stats }) => stats),
    [true],
  );
  state.received({ type: "stats", queue: "demo", counts: {}, workers: 0, rates: {} }, 0);
  assert.deepEqual(kinds(), ["stats"]);
  state.lost();
  state.opened(HELLO, 0);
  assert.deepEqual(
    sent().map(({ stats }) => stats),
    [true],
  );
  state.showStats(false);
  assert.deepEqual(
    sent().map(({ stats }) => stats),
    [false],
  );
  state.lost();
  state.opened(HELLO, 0);
  assert.deepEqual(sent(), []);
});

test("refused figures are told", () => {
  state.showStats(true);
  const [{ ref }] = sent();
  state.received({ type: "error", id: null, code: "not-allowed", errors: [], ref }, 0);
  assert.deepEqual(kinds(), ["stats-refused"]);
});

test("messages and members that are unknown are no matter", () => {
  state.received({ type: "news", text: "hello" }, 0);
  state.received({ type: "error", id: null, code: "bad-message", errors: [] }, 0);
  state.received(
    {
      type: "batch",
      messages: [
        { type: "status", ...view(OTHER, 1) },
        { type: "cancel-ack", ref: 99 },
      ],
    },
    0,
  );
  assert.deepEqual(kinds(), []);
});
