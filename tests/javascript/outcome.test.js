import assert from "node:assert/strict";
import { test } from "node:test";

import { Permanent, Rejected, Release } from "../../clients/javascript/leaseway_javascript/errors.js";
import { refusedOf, releaseOf, resultOf, thrownOf } from "../../clients/javascript/leaseway_javascript/outcome.js";
import { encode } from "../../clients/javascript/leaseway_javascript/protocol.js";

test("a result, and none", () => {
  assert.deepEqual(resultOf({ a: 1 }), { verb: "result", members: { value: { a: 1 } } });
  assert.deepEqual(resultOf(undefined), { verb: "result", members: { value: null } });
});

test("an error is a fault that is retried", () => {
  const { verb, members } = thrownOf(new RangeError("too far"));
  assert.equal(verb, "fail");
  assert.deepEqual(members, { error: { message: "RangeError: too far", code: "RangeError" }, retryable: true });
});

test("Permanent is final, with code and detail", () => {
  const { members } = thrownOf(new Permanent("no picture", { code: "no-picture", detail: { at: 3 } }));
  assert.deepEqual(members, {
    error: { message: "no picture", code: "no-picture", detail: { at: 3 } },
    retryable: false,
  });
});

test("Release gives back", () => {
  assert.deepEqual(thrownOf(new Release()), { verb: "release", members: {} });
  assert.deepEqual(thrownOf(new Release(1.6)), { verb: "release", members: { delayMs: 2 } });
  assert.deepEqual(releaseOf(-5).members, { delayMs: 0 });
  assert.equal(thrownOf(new Release(NaN)).verb, "fail");
});

const unsayable = {
  toString() {
    throw new Error("no");
  },
};

const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();

for (const thrown of [
  Object.assign(new Error("x"), { name: Symbol("odd") }),
  Object.defineProperty(new Error("x"), "message", {
    get() {
      throw new Error("no");
    },
  }),
  "text",
  null,
  undefined,
  7,
  {},
  unsayable,
  new Error(""),
  new Error("\ud83d"),
  new Error("x".repeat(1e6)),
  new Permanent("a", { detail: NaN }),
  new Permanent("a", { detail: "x".repeat(40_000) }),
  new Permanent("a", { detail: "\ud83d" }),
  new Permanent("\udc00", { code: "c".repeat(999) }),
]) {
  test(`whatever is thrown can be told: ${typeof thrown}`, () => {
    const { verb, members } = thrownOf(thrown);
    assert.ok(encode({ [verb]: members }).length < 32_768);
    assert.ok(members.error.message.length > 0);
    assert.ok(!("detail" in members.error));
  });
}

test("what cannot even be looked at can be told", () => {
  assert.equal(thrownOf(revoked).members.error.message, "what the handler threw cannot be read");
});

test("a refused result is final, a refused release is not", () => {
  const error = new Rejected("schema", [{ path: "/width", message: "is missing" }]);
  const told = refusedOf("result", error);
  assert.equal(told.members.retryable, false);
  assert.equal(told.members.error.code, "schema");
  assert.match(told.members.error.message, /the result was refused: schema: \/width: is missing/);
  assert.equal(refusedOf("release", error).members.retryable, true);
});
