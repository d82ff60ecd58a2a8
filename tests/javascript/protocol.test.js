import assert from "node:assert/strict";
import { test } from "node:test";

import { Rejected } from "../../clients/javascript/leaseway_javascript/errors.js";
import { decode, encode, flatten } from "../../clients/javascript/leaseway_javascript/protocol.js";

const within = (levels) => (levels ? [within(levels - 1)] : 1);
const itself = {};
itself.itself = itself;

const LOST = {
  "not a number": [{ a: [1, NaN] }, "/post/item/a/1"],
  "an infinity": [Infinity, "/post/item"],
  "a hole": [[1, undefined], "/post/item/1"],
  "a function": [{ "a/b": () => 1 }, "/post/item/a~1b"],
  "a symbol": [[Symbol("s")], "/post/item/0"],
  "a bigint": [1n, "/post/item"],
  "an integer of over 64 bits": [2 ** 64, "/post/item"],
  "one below": [-(2 ** 63) - 2048, "/post/item"],
  "a buffer": [{ a: new ArrayBuffer(8) }, "/post/item/a"],
  "a view of one": [new Uint8Array(8), "/post/item"],
  "a map": [new Map(), "/post/item"],
  "a set": [new Set(), "/post/item"],
  "half a surrogate pair": ["\ud83d", ""],
  "half a pair in a name": [{ "a\udc00": 1 }, ""],
  "more than 64 levels": [within(65), "/post/item" + "/0".repeat(64)],
};

const throwing = () => {
  throw new Error("no");
};
const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();
Object.assign(LOST, {
  "what a toJSON gives": [{ a: { toJSON: () => [NaN] } }, "/post/item/a/0"],
  "nothing of a toJSON": [{ toJSON: () => undefined }, "/post/item"],
  "a toJSON that throws": [{ toJSON: throwing }, ""],
  "a getter that throws": [Object.defineProperty({}, "a", { get: throwing, enumerable: true }), ""],
  "a revoked proxy": [revoked, ""],
});

for (const [name, [item, path]] of Object.entries(LOST)) {
  test(`${name} is refused before it is sent`, () => {
    assert.throws(
      () => encode({ post: { item } }),
      (error) => error instanceof Rejected && error.code === "bad-json" && error.errors[0].path === path,
    );
  });
}

test("what is within itself is refused", () => {
  assert.throws(() => encode({ post: { item: itself } }), { code: "bad-json" });
});

for (const item of [
  within(64),
  { a: undefined },
  "\\ud83d is text",
  "🙂",
  1e300,
  2 ** 63,
  -(2 ** 63),
  null,
  new Date(0),
  JSON.parse('{"__proto__": 1}'),
]) {
  test(`${JSON.stringify(item).slice(0, 40)} is sent as it is`, () => {
    const sent = JSON.stringify(decode(encode({ post: { item } })).post.item);
    assert.equal(sent, JSON.stringify(item));
  });
}

test("sizes are bytes", () => {
  const text = JSON.stringify({ a: "ä".repeat(100) });
  assert.equal(encode({ a: "ä".repeat(100) }, text.length + 100), text);
  assert.throws(() => encode({ a: "ä".repeat(100) }, text.length + 99), { code: "too-large" });
});

for (const data of ["", "[]", "null", "1", "{", '"text"']) {
  test(`a frame ${data || "of nothing"} is no message`, () => assert.throws(() => decode(data)));
}

test("a batch is taken apart, in order", () => {
  assert.deepEqual(flatten({ type: "batch", messages: [{ type: "a" }, { type: "b" }] }), [
    { type: "a" },
    { type: "b" },
  ]);
  assert.deepEqual(flatten({ type: "a" }), [{ type: "a" }]);
});
