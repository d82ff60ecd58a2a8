// The page of an inbox. The recipient's token comes in the address's fragment, as #token=…, and leaves it at once.

import "./bell.js";
import { Inbox, age, linkOf, make } from "./live.js";
import { pushAgain, pushOff, pushOn, pushState } from "./push.js";

const KEPT = "leaseway-notify-token";
const LISTS = { all: {}, unread: { unread: true }, archived: { archived: true } };
const STATES = {
  away: "Not connected. It connects again by itself.",
  "signed-out": "You are signed out here. Open this page again from your application.",
};
const NOBODY = "Nothing can come yet: your application has not said who you are.";
const part = (id) => document.getElementById(id);

const inbox = new Inbox({ base: "./", token: givenToken(), tokenUrl: document.body.dataset.tokenUrl });
let list = "all";
let before = null;
let turn = 0;

function givenToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname);
    sessionStorage.setItem(KEPT, given);
  }
  return given ?? sessionStorage.getItem(KEPT) ?? "";
}

// Does it, and tells on the page what hindered; that somebody is signed out is told by the state.
async function trying(work) {
  try {
    await work();
    part("fault").textContent = "";
  } catch (error) {
    part("fault").textContent = inbox.state === "signed-out" ? "" : `That did not work: ${error.message}`;
  }
}

async function load({ older = false } = {}) {
  turn += 1;
  const mine = turn;
  const query = { limit: 20, ...LISTS[list] };
  if (older && before) query.before = before;
  const told = await inbox.entries(query);
  if (mine !== turn) return; // Another list was asked for meanwhile.
  if (!older && list === "all" && told.entries.length) inbox.has(told.entries[0].number);
  const rows = told.entries.map(row);
  if (older) part("entries").append(...rows);
  else replace(rows);
  before = told.before;
  part("more").hidden = before === null;
  part("empty").textContent = told.known ? "Nothing here." : NOBODY;
  part("empty").hidden = part("entries").childElementCount > 0;
}

// The keyboard stays where it was: on the same entry, or on the one that took its place.
function replace(rows) {
  const [entries, focused] = [part("entries"), document.activeElement];
  const item = focused?.closest("#entries > li");
  const place = [...entries.children].indexOf(item);
  const control = item && controls(item).indexOf(focused);
  entries.replaceChildren(...rows);
  if (!item) return;
  const same = rows.find((one) => one.dataset.id === item.dataset.id);
  const next = rows[Math.min(place, rows.length - 1)];
  ((same && controls(same)[control]) ?? next?.querySelector("button") ?? part("read-all")).focus();
}

function controls(item) {
  return [...item.querySelectorAll("a, button")];
}

function row(entry) {
  const href = linkOf(entry, inbox.base);
  const unread = entry.readAt === null;
  const title = href ? make("a", { href, onclick: () => void mark("read", entry) }, entry.title) : entry.title;
  const at = new Date(entry.createdAt);
  const time = make("time", { datetime: at.toISOString(), title: at.toLocaleString() }, age(entry.createdAt));
  const heading = make("h2", {}, title);
  if (unread) heading.append(make("span", { class: "quiet" }, " (unread)"));
  const item = make("li", { class: unread ? "unread" : "read", "data-id": entry.id }, heading);
  if (entry.body) item.append(make("p", {}, entry.body));
  const archive = entry.archivedAt === null ? ["archive", "Archive"] : ["unarchive", "Take out of the archive"];
  const buttons = [unread ? ["read", "Mark read"] : ["unread", "Mark unread"], archive];
  item.append(
    make("div", { class: "row" }, make("small", {}, time), make("span", { class: "room" }), ...buttons.map(button)),
  );
  return item;

  function button([verb, words]) {
    const onclick = () => void mark(verb, entry);
    return make("button", { type: "button", "aria-label": `${words}: ${entry.title}`, onclick }, words);
  }
}

function mark(verb, entry) {
  return trying(() => inbox.mark(verb, entry && [entry.id]));
}

async function showPush() {
  const state = await pushState(inbox);
  const words = { on: "Pushes to this browser: on", off: "Get pushes on this browser", denied: "Pushes are blocked here" };
  part("push").hidden = state === "none";
  part("push").disabled = state === "denied";
  part("push").dataset.state = state;
  part("push").textContent = words[state] ?? "";
}

for (const button of document.querySelectorAll("[data-list]")) {
  button.addEventListener("click", () => {
    list = button.dataset.list;
    for (const each of document.querySelectorAll("[data-list]")) {
      each.setAttribute("aria-pressed", String(each === button));
    }
    void trying(load);
  });
}
part("more").addEventListener("click", () => void trying(() => load({ older: true })));
part("read-all").addEventListener("click", () => void mark("read", null));
part("push").addEventListener("click", () => {
  void trying(async () => {
    await (part("push").dataset.state === "on" ? pushOff(inbox) : pushOn(inbox));
    await showPush();
  });
});
part("settings").addEventListener("click", () => {
  void trying(async () => {
    location.assign((await inbox.ask("preferences/page", {})).url);
  });
});

inbox.addEventListener("state", ({ detail }) => {
  part("state").textContent = STATES[detail] ?? "";
  document.body.dataset.state = detail;
});
inbox.addEventListener("unread", ({ detail }) => {
  document.title = detail ? `(${detail}) Notifications` : "Notifications";
});
for (const type of ["entries", "marked", "anew"]) inbox.addEventListener(type, () => void trying(load));

const bell = document.createElement("leaseway-bell");
bell.inbox = inbox;
part("bell").append(bell);
void trying(async () => {
  await load();
  await showPush();
  await pushAgain(inbox);
});
