// The page at the server's address: posts items from a browser and watches them to their end.
//
// It is a client like any other: POST /<queue>/items and the monitor socket (PROTOCOL.md §3 and §5). Monitor keeps the
// socket, Card draws one item, Page ties both to the forms. Text of the server or of an item never becomes HTML.

const ENDED = new Set(["finished", "failed", "dead", "cancelled", "expired"]);
const FIRST_TRIED = ["demo", "resize"];
const NO_SUCH = new Set([4401, 4404]);
const REFUSALS = {
  4401: "This queue asks for a token, the token is not valid, or there is no queue of this name.",
  4403: "This token may not watch this queue.",
  4404: "There is no queue of this name here.",
};
const STEADY_MS = 30_000; // A connection that lasted so long was a good one.
const KEPT_CARDS = 50;
const ROOM_IN_MESSAGE = 128 * 1024; // An item is at most maxMessageBytes less this (§5).
const PICTURE = /^data:image\/(png|jpeg|webp|gif);base64,/;
const COLOUR = /^#[0-9a-f]{6}$/;

const element = (id) => document.getElementById(id);

const socketUrl = (queue, kind) =>
  new URL(`/${encodeURIComponent(queue)}/${kind}`, location.origin.replace(/^http/, "ws"));

// The monitor socket of one queue. It comes back by itself, with full jitter, and subscribes anew.
class Monitor {
  #queue;
  #token;
  #tell;
  #socket = null;
  #timer = 0;
  #failures = 0;
  #openedAt = 0;
  #watched = new Set();

  // `tell` has hello(message), view(view), state(state, text) and refused(code).
  constructor(queue, token, tell) {
    this.#queue = queue;
    this.#token = token;
    this.#tell = tell;
  }

  open() {
    const url = socketUrl(this.#queue, "monitor");
    if (this.#token) url.searchParams.set("token", this.#token); // A browser sets no headers here (§2).
    this.#socket = new WebSocket(url);
    this.#socket.onopen = () => this.#say({ hello: { client: "leaseway-page" } });
    this.#socket.onmessage = (event) => this.#hear(JSON.parse(event.data));
    this.#socket.onclose = (event) => this.#lost(event.code);
  }

  close() {
    clearTimeout(this.#timer);
    this.#socket.onclose = this.#socket.onmessage = null;
    this.#socket.close();
  }

  watch(id) {
    this.#watched.add(id);
    if (this.#openedAt) this.#say({ subscribe: [id] });
  }

  #hear(message) {
    if (message.type === "hello") {
      this.#openedAt = Date.now();
      this.#tell.state("open", "Connected: changes are shown as they happen.");
      this.#tell.hello(message);
      if (this.#watched.size) this.#say({ subscribe: [...this.#watched] });
    } else if (message.type === "status") {
      if (ENDED.has(message.status) && this.#watched.delete(message.id)) this.#say({ unsubscribe: [message.id] });
      this.#tell.view(message);
    }
  }

  #lost(code) {
    const steady = this.#openedAt && Date.now() - this.#openedAt >= STEADY_MS;
    this.#openedAt = 0;
    if (REFUSALS[code]) {
      this.#tell.refused(code);
      return;
    }
    this.#failures = steady ? 1 : this.#failures + 1;
    const wait = Math.random() * Math.min(30_000, 500 * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => this.open(), wait);
    this.#tell.state("lost", "No connection to the server. Trying again by itself; nothing is lost.");
  }

  #say(message) {
    this.#socket.send(JSON.stringify(message));
  }
}

// One item that this page posted.
class Card {
  #part;
  #rev = -1;

  constructor(queue, name, picture) {
    const root = element("card").content.cloneNode(true).firstElementChild;
    this.root = root;
    this.queue = queue;
    this.name = name;
    this.ended = false;
    this.#part = (selector) => root.querySelector(selector);
    this.#part(".name").textContent = name;
    this.#part("progress").setAttribute("aria-label", `Progress of ${name}`);
    if (picture) this.#showPicture(picture);
  }

  // Shows a view of the item; gives its status where that is news, else null.
  show(view) {
    if (view.rev <= this.#rev) return null; // Stale (§3).
    this.#rev = view.rev;
    const isNews = this.root.dataset.status !== view.status;
    this.root.dataset.status = view.status;
    this.ended = ENDED.has(view.status);
    this.#part(".status").textContent = view.label;
    this.#part(".id").textContent = `queue ${this.queue} · item ${view.id}`;
    this.#part(".line").textContent = describe(view);
    this.#showProgress(view);
    this.#showFault(view.error);
    if (view.status === "finished") this.#showResult(view.result);
    return isNews ? view.status : null;
  }

  #showPicture(url) {
    const image = this.#part(".thumbnail");
    image.onload = () => (image.hidden = false); // What is no picture is not shown as one.
    image.src = url;
  }

  #showProgress(view) {
    const bar = this.#part("progress");
    const percent = view.progress?.percent;
    bar.hidden = this.ended && view.status !== "finished";
    if (view.status === "finished") bar.value = 100;
    else if (typeof percent === "number") bar.value = percent;
    else if (view.status === "processing") bar.removeAttribute("value"); // At work, and nobody says how far.
  }

  #showFault(error) {
    this.#part(".fault").hidden = !error;
    this.#part(".fault").textContent = error ? `Last fault: ${error.message}` : "";
  }

  #showResult(result) {
    const isObject = result !== null && typeof result === "object" && !Array.isArray(result);
    const list = this.#part(".result");
    list.hidden = false;
    list.replaceChildren(
      ...Object.entries(isObject ? result : { result }).flatMap(([name, value]) => {
        const term = document.createElement("dt");
        term.textContent = name;
        const shown = document.createElement("dd");
        shown.append(...render(name, value));
        return [term, shown];
      }),
    );
  }
}

// What a person wants to know about a view, in one line.
function describe(view) {
  const took = view.finishedAt && ((view.finishedAt - view.postedAt) / 1000).toFixed(1);
  const about = {
    pending: view.attempts ? "back in the queue, waits for the next worker" : "waits for a worker to claim it",
    processing: view.progress?.stage ?? "at work",
    finished: `done in ${took} s`,
  }[view.status] ?? `ended after ${took} s`;
  const worker = view.status !== "pending" && view.worker && `worker ${view.worker}`;
  return [about, worker, view.attempts > 1 && `attempt ${view.attempts}`].filter(Boolean).join(" · ");
}

// A value of a result as nodes: pictures as pictures, colours with a chip, the rest as JSON text.
function render(name, value) {
  if (typeof value === "string" && PICTURE.test(value)) {
    return [Object.assign(new Image(), { src: value, alt: name })];
  }
  if (Array.isArray(value) && value.length && value.every((one) => COLOUR.test(one))) return value.map(colour);
  return [typeof value === "string" ? value : JSON.stringify(value, null, 2)];
}

function colour(value) {
  const shown = document.createElement("span");
  const chip = document.createElement("i");
  shown.className = "colour";
  chip.style.backgroundColor = value;
  shown.append(chip, value);
  return shown;
}

// Posts a body that is JSON text already. Gives the id, or throws an error that a person can read.
async function post(queue, token, body) {
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  let response;
  try {
    response = await fetch(`/${encodeURIComponent(queue)}/items`, { method: "POST", headers, body });
  } catch {
    throw new Error("The server gave no answer: the item may be in the queue or not.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer.id;
  const errors = (answer.errors ?? []).map(({ path, message }) => `${path}: ${message}`);
  const why = errors.length ? errors : [answer.detail ?? `HTTP ${response.status}`];
  throw new Error(["The server did not take it:", ...why].join("\n"));
}

function readAsUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

// A JPEG of the picture that fits into an item: photographs straight from a camera do not.
async function shrink(file, limit) {
  const bitmap = await createImageBitmap(file);
  for (let longest = 2400; ; longest *= 0.8) {
    const scale = Math.min(1, longest / Math.max(bitmap.width, bitmap.height));
    const canvas = Object.assign(document.createElement("canvas"), {
      width: Math.ceil(bitmap.width * scale),
      height: Math.ceil(bitmap.height * scale),
    });
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    const url = canvas.toDataURL("image/jpeg", 0.85);
    if (url.length <= limit) return url;
  }
}

// A picture for who has none at hand: a few discs on a sky, different each time.
function drawSample() {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1200, height: 750 });
  const draw = canvas.getContext("2d");
  const sky = draw.createLinearGradient(0, 0, 0, canvas.height);
  const hue = Math.random() * 360;
  sky.addColorStop(0, `hsl(${hue} 60% 25%)`);
  sky.addColorStop(1, `hsl(${hue + 40} 80% 75%)`);
  draw.fillStyle = sky;
  draw.fillRect(0, 0, canvas.width, canvas.height);
  for (let disc = 0; disc < 16; disc += 1) {
    draw.fillStyle = `hsl(${hue + 120 + Math.random() * 120} 70% 60% / 80%)`;
    draw.beginPath();
    draw.arc(Math.random() * canvas.width, Math.random() * canvas.height, 20 + Math.random() * 90, 0, Math.PI * 2);
    draw.fill();
  }
  return canvas.toDataURL("image/jpeg", 0.9);
}

class Page {
  #monitor = null;
  #queue = "";
  #token = ""; // In memory only: it is gone with the page.
  #limit = 0;
  #cards = new Map();
  #candidates;

  constructor() {
    const asked = new URLSearchParams(location.search).get("queue");
    this.#candidates = asked ? [asked] : [...FIRST_TRIED];
    element("queue").value = this.#candidates.shift();
    this.#on("access", "submit", () => {
      this.#candidates = [];
      this.#connect();
    });
    this.#on("picture", "submit", () => this.#postFile());
    this.#on("sample", "click", () => this.#postPicture("a drawn sample", drawSample()));
    this.#on("json", "submit", () => this.#postJson());
    this.#connect();
  }

  // Runs what an event asks for; what goes wrong is told where the eye is.
  #on(id, type, act) {
    element(id).addEventListener(type, async (event) => {
      event.preventDefault();
      this.#message("");
      try {
        await act();
      } catch (error) {
        this.#message(error.message);
      }
    });
  }

  #connect() {
    this.#monitor?.close();
    this.#queue = element("queue").value;
    this.#token = element("token").value;
    this.#state("connecting", "Connecting …");
    this.#monitor = new Monitor(this.#queue, this.#token, {
      hello: (message) => this.#greeted(message),
      view: (view) => this.#view(view),
      state: (state, text) => this.#state(state, text),
      refused: (code) => this.#refused(code),
    });
    for (const [id, card] of this.#cards) {
      if (card.queue === this.#queue && !card.ended) this.#monitor.watch(id);
    }
    this.#monitor.open();
  }

  // The queue's own schema tells whether it takes pictures.
  #greeted(hello) {
    const item = hello.schemas?.item?.properties ?? {};
    const takesPictures = "image" in item && "format" in item && "width" in item;
    this.#limit = hello.maxMessageBytes - ROOM_IN_MESSAGE;
    element("picture").hidden = !takesPictures;
    element("json-part").open = !takesPictures;
    element("workers").textContent = `Workers of this queue connect to ${socketUrl(this.#queue, "work")}`;
  }

  #refused(code) {
    const next = NO_SUCH.has(code) && this.#candidates.shift();
    if (next) {
      element("queue").value = next;
      this.#connect();
      return;
    }
    this.#state("refused", REFUSALS[code]);
  }

  async #postFile() {
    const file = element("file").files[0];
    if (!file) throw new Error("Choose a picture first, or post a sample.");
    if (!/^image\/(png|jpeg|webp)$/.test(file.type)) throw new Error(`${file.name} is no PNG, JPEG or WebP picture.`);
    let url = await readAsUrl(file);
    const room = this.#limit - 1000; // The item's other members.
    if (url.length > room) {
      url = await shrink(file, room);
      this.#message(`${file.name} is larger than an item may be, so this page made it smaller before posting it.`);
    }
    await this.#postPicture(file.name, url);
  }

  #postPicture(name, image) {
    const item = { image, format: element("format").value, width: element("width").valueAsNumber };
    return this.#post(JSON.stringify(item), `${name} → ${item.width} px, ${item.format}`, image);
  }

  #postJson() {
    const text = element("item").value;
    try {
      JSON.parse(text);
    } catch (error) {
      throw new Error(`This is not JSON: ${error.message}`);
    }
    return this.#post(text, text.replace(/\s+/g, " ").slice(0, 80), null);
  }

  // The item goes out as it was written: reading it here and writing it again could change its numbers.
  async #post(item, name, picture) {
    const queue = this.#queue;
    const id = await post(queue, this.#token, `{"item": ${item}}`);
    const card = new Card(queue, name, picture);
    this.#cards.set(id, card);
    element("items").prepend(card.root);
    element("nothing").hidden = true;
    this.#forgetOldest();
    if (queue === this.#queue) this.#monitor.watch(id);
  }

  #view(view) {
    const card = this.#cards.get(view.id);
    const news = card?.show(view);
    if (news) element("news").textContent = `${card.name}: ${news}`;
  }

  #forgetOldest() {
    for (const [id, card] of this.#cards) {
      if (this.#cards.size <= KEPT_CARDS) return;
      if (!card.ended) continue;
      card.root.remove();
      this.#cards.delete(id);
    }
  }

  #state(state, text) {
    element("connection").dataset.state = state;
    element("connection").textContent = text;
  }

  #message(text) {
    element("message").textContent = text;
  }
}

new Page();
