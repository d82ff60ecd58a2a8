/**
 * Connections that come and go: dialling, waiting, sleeping, dying unseen. By a peer and a clock in the test's hands.
 */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Queue, Worker } from "../../clients/javascript/leaseway_javascript/index.js";
import { CLOCK } from "../../clients/javascript/leaseway_javascript/outside.js";
import { reconnectDelay } from "../../clients/javascript/leaseway_javascript/link.js";
import { ManualClock, settled } from "./support/clock.js";
import { ID, Peer, view } from "./support/wire.js";

/** @type {Peer} */
let peer;
/** @type {ManualClock} */
let clock;
/** @type {EventTarget} */
let events;
let heard;
beforeEach(() => {
  peer = new Peer();
  clock = new ManualClock();
  events = new EventTarget();
  heard = [];
});

const outside = () => ({ WebSocket: peer.WebSocket, fetch: (...asked) => peer.fetch(...asked), clock, events, random: () => 0.5 });

function queue(credentials = {}) {
  const made = new Queue("https://task.example/app/demo", { ...credentials, ...outside() });
  for (const kind of ["online", "offline", "refused"]) made.addEventListener(kind, (event) => heard.push(event));
  return made;
}

function worker(more = {}) {
  return new Worker("ws://task.example/demo", { handler: () => new Promise(() => {}), ...more, ...outside() });
}

const kinds = () => heard.splice(0).map((event) => event.type);

/** A queue that watches an item, on a socket that stands. */
async function watching() {
  const made = queue();
  const seen = [];
  (async () => {
    for await (const { rev } of made.watch([ID])) seen.push(rev);
    seen.push("end");
  })();
  await peer.accept();
  kinds();
  return { queue: made, seen };
}

test("the wait before a reconnect is below a ceiling that doubles, to 30 s, or 5 s with leases", () => {
  assert.deepEqual(
    [1, 2, 3, 7, 8, 99].map((failures) => reconnectDelay(failures, 1, false)),
    [500, 1000, 2000, 30000, 30000, 30000],
  );
  assert.deepEqual(
    [1, 4, 5, 99].map((failures) => reconnectDelay(failures, 1, true)),
    [500, 4000, 5000, 5000],
  );
  assert.equal(reconnectDelay(5, 0, false), 0);
});

test("a queue dials when it is first needed, and says hello before all else", async () => {
  const made = queue();
  await settled();
  assert.equal(peer.sockets.length, 0);
  const connected = made.connected();
  await peer.accept();
  await connected;
  assert.equal(peer.socket.url, "wss://task.example/app/demo/monitor");
  assert.deepEqual(Object.keys(peer.socket.sent[0].hello), ["client", "batch"]);
  assert.equal(made.online, true);
});

test("how one wants to be told is said on every socket: after a reconnect, and on that of mine too", async () => {
  const made = queue({ paceMs: 1000, paceOffsetMs: 500, stamp: false });
  void made.connected();
  await peer.accept();
  await peer.drop();
  await clock.pass(250);
  await peer.accept();
  void made.watch("mine").next();
  await peer.accept();
  assert.deepEqual(
    peer.sockets.map(({ sent: [{ hello }] }) => [hello.paceMs, hello.paceOffsetMs, hello.stamp]),
    Array(3).fill([1000, 500, false]),
  );
  for (const paceMs of [0, -1, 0.5, 60_001, NaN, null, "500"]) {
    assert.throws(() => queue({ paceMs }), { name: "TypeError", message: /^paceMs is a whole number/ });
  }
  for (const paceOffsetMs of [-1, 0.5, 500, NaN, null, "0"]) {
    assert.throws(() => queue({ paceMs: 500, paceOffsetMs }), { name: "TypeError", message: /^paceOffsetMs is a whole number/ });
  }
  assert.throws(() => queue({ paceOffsetMs: 0 }), { name: "TypeError", message: /^paceOffsetMs is a whole number/ });
  assert.throws(() => queue({ stamp: 0 }), { name: "TypeError", message: "stamp is true or false" });
});

test("a cut connection comes back, and the item's end is seen once", async () => {
  const { seen } = await watching();
  await peer.say(view(ID, 1));
  await peer.drop();
  assert.deepEqual(
    heard.map(({ type, retryInMs }) => [type, retryInMs]),
    [["offline", 250]],
  );
  await clock.pass(249);
  assert.equal(peer.sockets.length, 1);
  await clock.pass(1);
  await peer.accept();
  assert.deepEqual(
    peer.said().map(({ subscribe }) => subscribe),
    [[ID]],
  );
  await peer.say(view(ID, 1), view(ID, 3, "finished"), view(ID, 3, "finished"));
  assert.deepEqual(seen, [1, 3, "end"]);
});

test("two loops over one item see the same, and the last one who leaves ends the subscription", async () => {
  const { queue: made, seen } = await watching();
  const other = made.job(ID).watch();
  await peer.say(view(ID, 1));
  assert.equal((await other.next()).value.rev, 1);
  peer.said();
  await other.return();
  assert.deepEqual(peer.said(), []);
  await peer.say(view(ID, 2), view(ID, 3), view(ID, 4, "expired"));
  assert.deepEqual(seen, [1, 4, "end"], "a slow reader sees the newest, and the end");
  await assert.rejects(made.job(ID).watch({ signal: AbortSignal.abort() }).next(), { name: "AbortError" });
});

test("an item that the server does not know is told after 30 s, and a repeated id is one item", async () => {
  const made = queue();
  const next = assert.rejects(made.watch([ID, ID]).next(), { name: "UnknownItem" });
  await peer.accept();
  assert.deepEqual(
    peer.said().map(({ subscribe }) => subscribe),
    [[ID]],
  );
  for (let n = 0; n < 3; n++) {
    await clock.pass(10_000);
    await peer.say({ type: "news" });
  }
  await next;
  const none = await made.watch([]).next();
  assert.equal(none.done, true);
});

test("failures in a row wait longer, and a connection that lasted begins anew", async () => {
  await watching();
  for (const wait of [250, 500, 1_000]) {
    await peer.drop();
    assert.equal(heard.pop().retryInMs, wait);
    await clock.pass(wait);
    await settled();
  }
  await peer.accept();
  await peer.say(view(ID, 1));
  for (let n = 0; n < 4; n++) {
    await clock.pass(10_000);
    await peer.say({ type: "news" });
  }
  await peer.drop(1012, "the server restarts");
  assert.equal(heard.pop().retryInMs, 250);
});

test("the network that comes back ends the wait", async () => {
  await watching();
  await peer.drop();
  events.dispatchEvent(new Event("online"));
  await settled();
  assert.equal(peer.sockets.length, 2);
});

test("a socket that does not come about, or a server that does not greet, is given up after 15 s", async () => {
  queue()
    .connected()
    .catch(() => {});
  await settled();
  await clock.pass(15_000);
  assert.equal(peer.socket.closedHere, true);
  await clock.pass(250);
  peer.socket.onopen();
  await clock.pass(15_000);
  assert.deepEqual(
    heard.map(({ error }) => error.message),
    Array(2).fill("1006 no hello within 15 s"),
  );
});

test("a connection that is silent is asked for a word, and given up where none comes", async () => {
  await watching();
  await peer.say(view(ID, 1));
  peer.said();
  await clock.pass(30_000);
  const [probe] = peer.said();
  assert.deepEqual(probe.cancel, ["0000000000000000"]);
  await peer.say({
    type: "cancel-ack",
    id: probe.cancel[0],
    accepted: false,
    status: null,
    reason: "unknown",
    ref: probe.ref,
  });
  await clock.pass(30_000);
  assert.equal(peer.said().length, 1);
  await clock.pass(10_000);
  assert.deepEqual(
    heard.map(({ error }) => error.message),
    ["1006 the server is silent"],
  );
  assert.equal(peer.socket.closedHere, true);
});

test("who waits for nothing does not ask", async () => {
  queue().connected();
  await peer.accept();
  await clock.pass(600_000);
  assert.deepEqual(peer.said(), []);
});

test("after sleep the connection is tried, and has its time, though all timers are late", async () => {
  const { seen } = await watching();
  await peer.say(view(ID, 1));
  peer.said();
  clock.sleep(8 * 3_600_000);
  await clock.pass(30_000);
  assert.equal(peer.said().length, 1);
  clock.sleep(8 * 3_600_000);
  await clock.pass(10_000);
  assert.equal(peer.said().length, 1, "asked again, not given up");
  assert.deepEqual(kinds(), []);
  await clock.pass(10_000);
  assert.deepEqual(kinds(), ["offline"]);
  await clock.pass(250);
  await peer.accept();
  await peer.say(view(ID, 4, "failed"));
  assert.deepEqual(seen, [1, 4, "end"]);
});

test("a worker that slept for an hour asks at once what it still holds, stops what it lost, and works on", async () => {
  const signals = [];
  worker({ handler: (_item, { signal }) => new Promise(() => signals.push(signal)) });
  await peer.accept();
  const [{ ref }] = peer.said();
  await peer.say({ type: "item", id: ID, attempts: 1, item: 1, leaseMs: 30_000, ref });
  clock.sleep(3_600_000);
  await clock.pass(10_000); // When the next renewal is due, on a clock that stood still.
  assert.deepEqual(
    peer.said().map(({ renew }) => renew.id),
    ["0000000000000000", ID],
  );
  await peer.drop(); // The server gave the worker up long ago.
  await clock.pass(5_000);
  await peer.accept();
  assert.deepEqual(peer.said()[0].resume.leases, [{ id: ID, attempts: 1 }]);
  const gone = { id: ID, accepted: false, status: "processing", reason: "fence" };
  await peer.say({ type: "resume-ack", leases: [gone] });
  assert.equal(signals[0].reason.name, "LeaseLost");
  assert.equal(peer.socket.closedHere, false);
});

for (const kind of ["offline", "online", "pageshow", "visibilitychange"]) {
  test(`${kind} tries the connection at once`, async () => {
    await watching();
    peer.said();
    events.dispatchEvent(new Event(kind));
    assert.equal(peer.said().length, 1);
    await clock.pass(10_000);
    assert.deepEqual(kinds(), ["offline"]);
  });
}

test("a day that the clock of the machine is set to is no matter", async () => {
  const { seen } = await watching();
  for (const day of [86_400_000, -86_400_000]) {
    clock.sleep(day);
    await clock.pass(1_000);
    await peer.say(view(ID, seen.length + 1));
  }
  assert.deepEqual([seen, kinds()], [[1, 2], []]);
});

for (const [code, name] of [
  [4401, "Unauthorized"],
  [4403, "Forbidden"],
  [4404, "NoSuchQueue"],
]) {
  test(`${code} is the end, and tells all who wait`, async () => {
    const made = queue();
    const waits = [made.post(1), made.job(ID).result, made.cancel(ID), made.watch([ID]).next(), made.stats().next()];
    const told = Promise.all(waits.map((wait) => assert.rejects(wait, { name })));
    await settled();
    peer.socket.onopen();
    await peer.drop(code, "no");
    await told;
    await assert.rejects(made.post(1), { name });
    assert.deepEqual(kinds(), ["refused"]);
    assert.equal(clock.next, Infinity);
  });
}

test("a closed queue tells all who wait, and leaves no timer", async () => {
  const made = queue();
  const waits = [made.post(1), made.job(ID).result, made.watch([ID]).next(), made.watch("mine").next()];
  const told = Promise.all(waits.map((wait) => assert.rejects(wait, { name: "ConnectionLost" })));
  await peer.accept();
  made.close();
  await told;
  await assert.rejects(made.connected(), { name: "ConnectionLost" });
  assert.equal(clock.next, Infinity);
});

test("a token is exchanged for a ticket before each connection, and never in an address", async () => {
  const made = queue({ token: "long-lived" });
  peer.answers.push([201, { ticket: "t1" }], [201, { ticket: "t2" }]);
  made.watch([ID]).next();
  await peer.accept();
  await peer.drop();
  await clock.pass(250);
  await peer.accept();
  assert.deepEqual(
    peer.sockets.map(({ url }) => new URL(url).search),
    ["?ticket=t1", "?ticket=t2"],
  );
  for (const { url, method, headers, credentials, redirect } of peer.requests) {
    assert.equal(url, "https://task.example/app/demo/tickets");
    assert.deepEqual(
      [method, headers.authorization, credentials, redirect],
      ["POST", "Bearer long-lived", "omit", "error"],
    );
  }
});

test("what hinders a ticket for the moment is tried again, a bad token is not", async () => {
  const made = queue({ token: "a" });
  const refused = assert.rejects(made.post(1), { name: "Unauthorized", message: "no such token" });
  peer.answers.push([503, { code: "unavailable" }], [429, { code: "limit" }], [502, {}]);
  peer.answers.push([401, { code: "unauthorized", detail: "no such token" }]);
  for (const wait of [250, 500, 1_000]) {
    await settled();
    await clock.pass(wait);
  }
  await refused;
  assert.deepEqual(kinds(), ["offline", "offline", "offline", "refused"]);
});

test("getToken is asked again when what it gave is refused, and once only in a row", async () => {
  const given = ["old", "new", "worse", "worst"];
  queue({ getToken: () => given.shift() })
    .watch([ID])
    .next()
    .catch(() => {});
  peer.answers.push([401, {}], [201, { ticket: "t1" }], [201, { ticket: "t2" }], [401, {}], [401, {}]);
  await peer.accept();
  await peer.drop(1012);
  await clock.pass(250);
  await peer.accept();
  assert.equal(given.length, 2, "what is good is not asked for again");
  await peer.drop(1012);
  await clock.pass(500);
  assert.deepEqual(kinds(), ["online", "offline", "online", "offline", "refused"]);
  assert.deepEqual(
    peer.requests.map(({ headers }) => headers.authorization.slice(7)),
    ["old", "new", "new", "new", "worse"],
  );
});

test("a token that expires while the page is open is replaced", async () => {
  const given = ["first", "second"];
  queue({ getToken: async () => ({ token: given.shift() }) })
    .watch([ID])
    .next();
  peer.answers.push([201, { ticket: "t1" }], [201, { ticket: "t2" }]);
  await peer.accept();
  await peer.drop(4401, "the token has expired");
  await clock.pass(250);
  await peer.accept();
  assert.equal(peer.requests[1].headers.authorization, "Bearer second");
  assert.deepEqual(kinds(), ["online", "offline", "online"]);
});

test("getToken may give a ticket, for each connection", async () => {
  let asked = 0;
  queue({ getToken: () => ({ ticket: `t${++asked}` }) })
    .watch([ID])
    .next();
  await peer.accept();
  await peer.drop();
  await clock.pass(250);
  await peer.accept();
  assert.deepEqual(
    peer.sockets.map(({ url }) => new URL(url).search),
    ["?ticket=t1", "?ticket=t2"],
  );
  assert.deepEqual(peer.requests, []);
});

test("a getToken that throws is asked again later", async () => {
  let asked = 0;
  queue({
    getToken: () => {
      if (++asked === 1) throw new Error("the application is away");
      return null;
    },
  })
    .watch([ID])
    .next();
  await settled();
  assert.match(heard[0].error.message, /getToken failed/);
  await clock.pass(250);
  await peer.accept();
  assert.deepEqual(kinds(), ["offline", "online"]);
});

test("a ticket is good for one connection", async () => {
  const made = queue({ ticket: "only" });
  const wait = assert.rejects(made.watch([ID]).next(), { name: "Unauthorized", message: /one connection/ });
  await peer.accept();
  await peer.drop();
  await clock.pass(250);
  await wait;
  assert.deepEqual(kinds(), ["online", "offline", "refused"]);
});

for (const url of [
  "demo",
  "ftp://a/demo",
  "ws://a",
  "ws://a/Demo",
  "ws://a/demo?token=x",
  "ws://a/demo#x",
  "ws://u:p@a/demo",
  "ws://a/_demo",
]) {
  test(`${url} is no queue's address`, () => assert.throws(() => new Queue(url, outside()), TypeError));
}

for (const credentials of [
  { token: "a b" },
  { token: "" },
  { token: "ä" },
  { ticket: 7 },
  { token: "a", ticket: "b" },
]) {
  test(`${JSON.stringify(credentials)} is no credential`, () => assert.throws(() => queue(credentials), TypeError));
}

test("options that mean nothing are refused before anything is sent", async () => {
  const made = queue();
  await assert.rejects(made.post(1, { delay: 5 }), /no option delay/);
  await assert.rejects(made.post(undefined), TypeError);
  assert.throws(() => made.watch("all of them"), TypeError);
  assert.throws(() => made.job("x"), TypeError);
  assert.throws(() => worker({ handler: undefined }), TypeError);
  assert.throws(() => worker({ concurrency: 0.5 }), TypeError);
  assert.throws(() => worker({ name: "a\u2028b" }), TypeError);
});

test("where there is no WebSocket one must be passed", (context) => {
  context.after(
    (
      (own) => () =>
        (globalThis.WebSocket = own)
    )(globalThis.WebSocket),
  );
  delete globalThis.WebSocket;
  assert.throws(() => new Queue("ws://a/demo"), /pass one as WebSocket/);
  queue().close();
});

test("a blocked WebSocket is told as such, with the way to go on", async () => {
  const wait = assert.rejects(queue().connected({ timeoutMs: 20_000 }), {
    name: "SocketsBlocked",
    message: /proxy .* block.* queue\.ask/s,
  });
  peer.answers.push([200, { queue: "demo" }]);
  await settled();
  await peer.drop();
  await clock.pass(20_000);
  await wait;
});

test("who waits for the connection of a queue that is closed or refused is told at once", async () => {
  const made = queue();
  const wait = assert.rejects(made.connected(), { name: "ConnectionLost", message: /closed here/ });
  await settled();
  made.close();
  await wait;
  const other = assert.rejects(queue().connected(), { name: "Unauthorized" });
  await settled();
  await peer.drop(4401);
  await other;
});

test("a server that is away is told as such", async () => {
  const told = { name: "ConnectionLost", message: /no connection within 200 ms: 1006/ };
  const wait = assert.rejects(queue().connected({ timeoutMs: 200 }), told);
  await settled();
  await peer.drop();
  await clock.pass(200);
  await wait;
});

test("a proxy is told as such also while another ticket is asked for", async () => {
  const wait = assert.rejects(queue({ token: "t" }).connected({ timeoutMs: 250 }), { name: "SocketsBlocked" });
  peer.answers.push([201, { ticket: "one" }]);
  await settled();
  await peer.drop();
  const { fetch } = peer;
  peer.answers.push([200, { queue: "demo" }]);
  peer.fetch = (url, init) => (url.endsWith("/tickets") ? new Promise(() => {}) : fetch(url, init));
  await clock.pass(250);
  await wait;
});

for (const [name, getToken, hindrance] of [
  ["hangs", () => new Promise(() => {}), "no answer"],
  ["throws", () => Promise.reject(new Error("no")), "getToken failed"],
  ["gives tickets", () => ({ ticket: "one" }), "1006"],
]) {
  test(`where getToken ${name} no proxy is blamed, and nobody waits for ever`, async () => {
    const message = `no connection within 200 ms: ${hindrance}`;
    const wait = assert.rejects(queue({ getToken }).connected({ timeoutMs: 200 }), { name: "ConnectionLost", message });
    await settled();
    if (peer.sockets.length) await peer.drop();
    await clock.pass(200);
    await wait;
  });
}

test("a request that is aborted while getToken hangs ends", async () => {
  const abort = new AbortController();
  const made = queue({ getToken: () => new Promise(() => {}) });
  const wait = assert.rejects(made.ask("GET", "", { signal: abort.signal }), { name: "AbortError" });
  await settled();
  abort.abort();
  await wait;
  await assert.rejects(made.ask("GET", "", { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("a request does not use up the ticket of the socket", async () => {
  const made = queue({ ticket: "one" });
  await assert.rejects(made.ask("GET", ""), { name: "Unauthorized" });
  const connected = made.connected();
  await peer.accept();
  await connected;
  assert.match(peer.socket.url, /\?ticket=one$/);
});

test("what JSON cannot keep is refused over HTTP too", async () => {
  await assert.rejects(queue().ask("POST", "items", { body: { item: NaN } }), { name: "Rejected", code: "bad-json" });
  assert.deepEqual(peer.requests, []);
});

test("how much is too much is the server's word, also for what was said before it", async () => {
  const made = queue();
  const large = made.post("x".repeat(2_000_000));
  const larger = assert.rejects(made.post("x".repeat(3_000_000)), { name: "Rejected", code: "too-large" });
  await peer.accept({ maxMessageBytes: 2_500_000 });
  await larger;
  const [{ ref, post }] = peer.said();
  assert.equal(post.item.length, 2_000_000);
  await peer.say({ type: "posted", ref, id: ID, duplicate: false });
  assert.equal((await large).id, ID);
});

test("what is to last for ever does, on the machine's own clock", async () => {
  const rings = [];
  for (const ms of [Infinity, 2 ** 31, Number.MAX_VALUE]) {
    const timer = CLOCK.setTimeout(() => rings.push(ms), ms);
    rings.push(await new Promise((resolve) => CLOCK.setTimeout(() => resolve("first"), 20)));
    CLOCK.clearTimeout(timer);
  }
  assert.deepEqual(rings, ["first", "first", "first"]);
});

test("who stops a worker twice waits no longer than until it has stopped", async () => {
  const made = worker();
  await peer.accept();
  const stops = [made.stop({ graceMs: 30_000 }), made.stop({ graceMs: 10_000 })];
  await peer.say({ type: "empty", ref: peer.said()[0].ref });
  await Promise.all(stops);
});

test("progress that nobody waits for harms no other attempt", async () => {
  const handled = [];
  const made = worker({ handler: (_, job) => void handled.push(job.progress(NaN)) });
  await peer.accept();
  const [{ ref }] = peer.said();
  await peer.say({ type: "item", id: ID, attempts: 1, item: 1, leaseMs: 30_000, progress: null, ref });
  await new Promise((resolve) => setImmediate(resolve)); // Where it is unheard, Node ends this process now.
  assert.equal(peer.said()[0].result.value, null);
  await assert.rejects(handled[0], { name: "Rejected" });
  void made.stop({ graceMs: 0 });
});

test("a post that is given up: what was never sent was not posted, of what was sent nobody knows", async () => {
  const made = queue();
  const abort = new AbortController();
  const waits = [
    assert.rejects(made.post(1, { timeoutMs: 100 }), { name: "TimeoutError" }),
    assert.rejects(made.post(2, { signal: abort.signal }), { name: "AbortError" }),
  ];
  abort.abort();
  await clock.pass(100);
  await Promise.all(waits);
  await peer.accept();
  assert.deepEqual(peer.said(), []);
  const again = new AbortController();
  const sent = [
    assert.rejects(made.post(3, { timeoutMs: 100 }), { name: "PostUnknown" }),
    assert.rejects(made.post(4, { signal: again.signal }), { name: "PostUnknown" }),
  ];
  again.abort();
  await clock.pass(100);
  await Promise.all(sent);
});

test("a signal ends a loop, and its subscription", async () => {
  const made = queue();
  const abort = new AbortController();
  const next = made.watch([ID], { signal: abort.signal }).next();
  await peer.accept();
  peer.said();
  abort.abort();
  await assert.rejects(next, { name: "AbortError" });
  await settled();
  assert.deepEqual(
    peer.said().map(({ unsubscribe }) => unsubscribe),
    [[ID]],
  );
});

for (const data of ["{", "[]", '{"type": "posted"', new ArrayBuffer(2), '{"type":"batch"}']) {
  test(`a server that says ${JSON.stringify(data)} is dialled anew`, async () => {
    await watching();
    peer.socket.onmessage({ data });
    await settled();
    assert.match(heard.pop().error.message, /^1007/);
  });
}

test("an address that the browser will not try is told without it", async () => {
  peer.WebSocket = class {
    constructor() {
      throw new DOMException("The URL wss://… is invalid: ?ticket=secret", "SecurityError");
    }
  };
  queue()
    .connected()
    .catch(() => {});
  await settled();
  assert.equal(heard.pop().error.message, "1006 SecurityError");
});

test("a worker that holds leases is back within 5 s, resumes, and goes on renewing", async () => {
  const made = worker({ concurrency: 2 });
  await peer.accept();
  const [{ claim, ref }] = peer.said();
  assert.equal(claim.count, 2);
  await peer.say({ type: "item", id: ID, attempts: 3, item: 1, leaseMs: 30_000, ref });
  for (let n = 0; n < 8; n++) {
    await peer.drop();
    await clock.pass(2_500);
  }
  await peer.accept();
  assert.deepEqual(peer.said()[0].resume, { worker: made.name, leases: [{ id: ID, attempts: 3 }] });
  await clock.pass(10_000);
  assert.deepEqual(peer.said().at(-1).renew, { id: ID, attempts: 3 });
});

test("a worker that stops gives back what is not done in time, tells its handler, and closes", async () => {
  let signal;
  const made = worker({
    handler: (_item, job) => {
      signal = job.signal;
      return new Promise(() => {});
    },
  });
  await peer.accept();
  const [{ ref }] = peer.said();
  await peer.say({ type: "item", id: ID, attempts: 1, item: 1, leaseMs: 30_000, ref });
  const stopped = made.stop({ graceMs: 1_000 });
  await settled();
  assert.deepEqual([peer.said(), signal.aborted], [[], false]);
  await clock.pass(1_000);
  assert.equal(signal.reason.name, "LeaseLost");
  const [{ release, ref: released }] = peer.said();
  assert.deepEqual(release, { id: ID, attempts: 1 });
  await peer.say({ type: "release-ack", id: ID, accepted: true, status: "pending", dueAt: 0, ref: released });
  await stopped;
  assert.equal(peer.socket.closedHere, true);
  assert.equal(clock.next, Infinity);
});

test("a worker whose criteria are refused ends", async () => {
  const made = worker({ criteria: { a: { $huh: 1 } } });
  await peer.accept();
  const [{ ref }] = peer.said();
  await peer.say({ type: "error", id: null, code: "bad-message", errors: [], ref });
  await assert.rejects(made.stopped, { name: "Rejected" });
  await assert.rejects(made.stop(), { name: "Rejected" });
});
