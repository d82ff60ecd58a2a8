import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { resultOf, thrownOf } from "../../clients/javascript/leaseway_javascript/outcome.js";
import { WorkerState } from "../../clients/javascript/leaseway_javascript/worker-state.js";
import { ID, OTHER } from "./support/wire.js";

const HELLO = { maxMessageBytes: 2_000 };
/** @type {WorkerState} */
let state;
beforeEach(() => begin(1));

function begin(slots, more) {
  state = new WorkerState("box-1", slots, more);
  state.opened(HELLO, 0);
}

const sent = () => {
  const all = [];
  for (let text = state.nextMessage(); text !== null; text = state.nextMessage()) all.push(JSON.parse(text));
  return all;
};
const verbs = () => sent().map((message) => Object.keys(message)[0]);
const events = () =>
  state.takeEvents().map(({ type, reason, error }) => [type, reason ?? error?.name].filter(Boolean).join(" "));

/** The server hands out an item to the claim that waits. */
function lease(id = ID, attempts = 1) {
  const claim = sent().find((message) => message.claim);
  state.received({ type: "item", id, attempts, item: 1, leaseMs: 30_000, progress: null, ref: claim?.ref ?? 0 }, 0);
  return state.takeEvents().at(-1).lease;
}

function answer(type, more = {}, now = 0) {
  const [{ ref }] = sent();
  state.received({ type, id: ID, accepted: true, ref, ...more }, now);
}

test("it claims as many as there are places, in one claim", () => {
  begin(3, { criteria: { format: "png" } });
  const [{ claim, ref }] = sent();
  assert.deepEqual(claim, { criteria: { format: "png" }, waitMs: 60_000, count: 3 });
  state.received({ type: "item", id: ID, attempts: 1, item: 1, leaseMs: 30_000, ref }, 0);
  assert.deepEqual(sent(), []);
  state.received({ type: "empty", ref }, 60_000);
  assert.equal(sent()[0].claim.count, 2);
});

test("the fence is in everything that is said of a lease", () => {
  const held = lease(ID, 7);
  state.progress(held, { percent: 1 });
  state.tick(10_000);
  state.settle(held, resultOf(1), 0);
  const said = sent().filter((message) => !message.claim);
  assert.deepEqual(
    said.map((message) => Object.entries(message)[0]),
    [
      ["progress", { id: ID, attempts: 7, value: { percent: 1 } }],
      ["renew", { id: ID, attempts: 7 }],
      ["result", { id: ID, attempts: 7, value: 1 }],
    ],
  );
});

test("leases are renewed at a third, also while progress is awaited", () => {
  const held = lease();
  assert.equal(state.deadline, 10_000);
  state.tick(9_999);
  assert.deepEqual(verbs(), []);
  state.tick(10_000);
  answer("renew-ack", {}, 12_000);
  assert.equal(state.deadline, 22_000);
  state.settle(held, resultOf(1), 13_000);
  assert.equal(state.deadline, Infinity);
});

test("after a drop it resumes, says again what had no answer, then claims", () => {
  begin(2);
  const held = lease();
  state.received({ type: "item", id: OTHER, attempts: 2, item: 2, leaseMs: 30_000, ref: 1 }, 0);
  state.takeEvents();
  state.progress(held, 1);
  state.settle(held, resultOf("done"), 0);
  const before = sent().filter((message) => !message.claim);
  state.lost();
  state.opened(HELLO, 5_000);
  const [resume, ...said] = sent();
  assert.deepEqual(resume.resume, {
    worker: "box-1",
    leases: [
      { id: ID, attempts: 1 },
      { id: OTHER, attempts: 2 },
    ],
  });
  assert.deepEqual(said.slice(0, -1), before);
  assert.ok(said.at(-1).claim);
  assert.equal(state.deadline, 15_000);
});

test("a result that is said again and counted before is a success", () => {
  const held = lease();
  state.settle(held, resultOf(1), 0);
  answer("result-ack", { accepted: false, duplicate: true, status: "finished", reason: "terminal" });
  assert.deepEqual(
    state.takeEvents().map(({ type, accepted, error }) => [type, accepted, error]),
    [["settled", true, null]],
  );
});

test("a result that came too late is told as lost", () => {
  const held = lease();
  state.settle(held, resultOf(1), 0);
  answer("result-ack", { accepted: false, status: "processing", reason: "fence" });
  const [{ accepted, error }] = state.takeEvents();
  assert.equal(accepted, false);
  assert.match(error.message, /fence/);
});

test("a lease that is not resumed is lost, and a later one of the same item is not meant", () => {
  const held = lease();
  state.lost();
  state.opened(HELLO, 0);
  sent();
  state.received({ type: "item", id: ID, attempts: 2, item: 1, leaseMs: 30_000, ref: 0 }, 0);
  assert.deepEqual(events(), ["stop claimed again", "start"]);
  state.received(
    { type: "resume-ack", leases: [{ id: ID, accepted: false, status: "processing", reason: "fence" }] },
    0,
  );
  assert.deepEqual(events(), []);
  assert.throws(() => state.progress(held, 1), { name: "LeaseLost" });
});

test("a lease that the server takes away stops its handler, and what it still says is of no use", () => {
  const held = lease();
  const ref = state.progress(held, 1);
  state.received({ type: "cancel", id: ID, reason: "cancelled" }, 0);
  assert.deepEqual(events(), ["stop cancelled", "answered LeaseLost"]);
  state.received({ type: "progress-ack", id: ID, accepted: false, reason: "terminal", ref }, 0);
  sent();
  state.settle(held, resultOf(1), 0);
  assert.deepEqual(verbs(), ["claim"]);
  assert.equal(state.urgent, false);
});

test("a report that is under way is not taken back by a cancel", () => {
  const held = lease();
  state.settle(held, resultOf(1), 0);
  state.received({ type: "cancel", id: ID, reason: "finished" }, 0);
  assert.deepEqual(events(), []);
  assert.equal(state.quiet, false);
});

test("a refused result becomes a final fail", () => {
  const held = lease();
  state.settle(held, resultOf(1), 0);
  answer("error", { code: "schema", errors: [{ path: "/a", message: "no" }] });
  const [{ fail }] = sent().filter((message) => message.fail);
  assert.equal(fail.retryable, false);
  assert.equal(fail.error.code, "schema");
});

test("a result that cannot be sent becomes a final fail, and one that is too large too", () => {
  for (const value of [NaN, "x".repeat(3_000)]) {
    begin(1);
    state.settle(lease(), resultOf(value), 0);
    const [{ fail }] = sent().filter((message) => message.fail);
    assert.equal(fail.retryable, false);
  }
});

test("progress that is refused is told to the handler, and the lease goes on", () => {
  const held = lease();
  state.progress(held, 1);
  answer("error", { code: "schema", errors: [] });
  assert.deepEqual(events(), ["answered Rejected"]);
  assert.ok(state.progress(held, 2));
  assert.throws(() => state.progress(held, NaN), { code: "bad-json" });
});

test("what is refused for the moment is said again after a pause", () => {
  const held = lease();
  state.settle(held, thrownOf(new Error("no")), 0);
  const [fail, claim] = sent();
  for (const { ref } of [fail, claim])
    state.received({ type: "error", id: null, code: "unavailable", errors: [], ref }, 0);
  state.tick(999);
  assert.deepEqual(verbs(), []);
  assert.equal(state.deadline, 1_000);
  state.tick(1_000);
  assert.deepEqual(
    sent().map(({ fail: failed, claim: claimed }) => Boolean(failed ?? claimed)),
    [true, true],
  );
});

test("a resume that is refused for the moment is said again", () => {
  lease();
  state.lost();
  state.opened(HELLO, 0);
  const [{ ref }] = sent();
  state.received({ type: "error", id: null, code: "unavailable", errors: [], ref }, 0);
  state.tick(1_000);
  assert.deepEqual(verbs(), ["resume"]);
});

test("criteria that the server does not take are the end", () => {
  const [{ ref }] = sent();
  const refusal = { type: "error", id: null, code: "bad-message", errors: [{ path: "/criteria", message: "no" }], ref };
  assert.throws(() => state.received(refusal, 0), { name: "Rejected" });
  assert.throws(() => new WorkerState("a", 1, { criteria: { a: NaN } }), { name: "Rejected" });
  assert.throws(() => new WorkerState("a", 1, { labels: { a: NaN } }), { name: "Rejected" });
});

test("a server that answers empty at once is not asked in a loop", () => {
  const [{ ref }] = sent();
  state.received({ type: "empty", ref }, 10);
  assert.deepEqual(sent(), []);
  assert.equal(state.deadline, 1_010);
  state.tick(1_010);
  assert.deepEqual(verbs(), ["claim"]);
});

test("a drain withdraws the claims, gives back what still comes, and is quiet when all is answered", () => {
  const [{ ref }] = sent();
  state.drain();
  state.drain();
  assert.deepEqual(verbs(), ["unclaim"]);
  state.received({ type: "item", id: ID, attempts: 1, item: 1, leaseMs: 30_000, ref }, 0);
  assert.deepEqual(events(), []);
  const [release] = sent();
  assert.deepEqual(release.release, { id: ID, attempts: 1 });
  assert.equal(state.quiet, false);
  state.received({ type: "release-ack", id: ID, accepted: true, status: "pending", ref: release.ref }, 0);
  assert.equal(state.quiet, true);
  assert.equal(state.deadline, Infinity);
});

test("an unclaim that is refused for the moment is said again", () => {
  sent();
  state.drain();
  const [{ ref }] = sent();
  state.received({ type: "error", id: null, code: "limit", errors: [], ref }, 0);
  state.tick(1_000);
  assert.deepEqual(verbs(), ["unclaim"]);
});

test("while nothing stands nothing is said, and a drained worker that comes back claims nothing", () => {
  const held = lease();
  state.lost();
  assert.equal(state.deadline, Infinity);
  state.tick(1e9);
  state.drain();
  assert.deepEqual(sent(), []);
  state.opened(HELLO, 0);
  assert.deepEqual(verbs(), ["resume"]);
  state.settle(held, resultOf(1), 0);
  assert.deepEqual(verbs(), ["result"]);
});

test("messages that are unknown, and the answer to the probe, are no matter", () => {
  const { ref } = JSON.parse(state.probe());
  state.received({ type: "renew-ack", id: "0000000000000000", accepted: false, reason: "unknown", ref }, 0);
  state.received({ type: "news" }, 0);
  state.received({ type: "cancel", id: OTHER, reason: "lapsed" }, 0);
  assert.deepEqual(events(), []);
});
