// The page of the demo: shows what the application knows, twice a second. The bell is told by the service, at once.

const part = (id) => document.getElementById(id);
const post = (path) => fetch(path, { method: "POST" }).then(show);

// A text that may be longer than its place; the keyboard can scroll it.
function long(text) {
  const element = make("pre", text);
  element.tabIndex = 0;
  return element;
}

function make(name, ...children) {
  const element = document.createElement(name);
  element.append(...children);
  return element;
}

// What is shown already stays, with the keyboard and the place that was scrolled to.
const shown = new Map();
function fill(id, values, row) {
  const told = JSON.stringify(values);
  if (shown.get(id) === told) return;
  shown.set(id, told);
  part(id).replaceChildren(...(values.length ? values.map((value) => make("li", ...row(value))) : [make("li", "Nothing.")]));
}

async function show() {
  const state = await (await fetch("state")).json();
  part("provider").setAttribute("aria-pressed", String(state.failing));
  fill("mails", state.mails, ({ subject, text }) => [make("strong", subject), long(text)]);
  fill("pushes", state.pushes, (push) => [make("strong", push.title), long(JSON.stringify(push, null, 1))]);
  fill("attention", state.attention, (one) => {
    const retry = make("button", "Retry");
    retry.addEventListener("click", () => void post(`retry/${one.id}`));
    return [`${one.status}: ${one.channel}, ${one.title}. ${one.error} `, retry];
  });
  fill("deliveries", state.deliveries, (one) => [
    `${one.title}: ${one.channel} ${one.status}${one.reason ? ` (${one.reason})` : ""}`,
  ]);
}

for (const button of document.querySelectorAll("[data-event]")) {
  button.addEventListener("click", () => void post(`events/${button.dataset.event}`));
}
part("provider").addEventListener("click", (event) => {
  void post(`provider/${event.target.getAttribute("aria-pressed") === "true" ? "works" : "fails"}`);
});
setInterval(() => void show().catch(() => {}), 500);
void show();
