// Pushes to this browser: asks for them, subscribes with the service worker beside this script, and tells the service.

const WORKER = new URL("./push-worker.js", import.meta.url);

// Whether this browser can take pushes here.
export function canPush() {
  return "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;
}

// "on", "off", "denied" by the reader, or "none" where the service has no key or the browser cannot.
export async function pushState(inbox) {
  if (!canPush()) return "none";
  const { publicKey } = await inbox.ask("push");
  if (!publicKey) return "none";
  if (Notification.permission === "denied") return "denied";
  return (await current()) ? "on" : "off";
}

// To be called when the reader asked for it, as browsers want it.
export async function pushOn(inbox) {
  if ((await Notification.requestPermission()) !== "granted") return "denied";
  const { publicKey } = await inbox.ask("push");
  await navigator.serviceWorker.register(WORKER, { updateViaCache: "none" });
  const registration = await navigator.serviceWorker.ready;
  const before = await registration.pushManager.getSubscription();
  if (before && !sameKey(before, publicKey)) await before.unsubscribe(); // The service has another key by now.
  const options = { userVisibleOnly: true, applicationServerKey: bytes(publicKey) };
  await inbox.ask("push/subscriptions", (await registration.pushManager.subscribe(options)).toJSON());
  return "on";
}

export async function pushOff(inbox) {
  const subscription = await current();
  if (!subscription) return "off";
  await inbox.ask("push/subscriptions/remove", { endpoint: subscription.endpoint });
  await subscription.unsubscribe();
  return "off";
}

// A browser may have renewed its subscription meanwhile: the service is told at each visit.
export async function pushAgain(inbox) {
  const subscription = canPush() && Notification.permission === "granted" ? await current() : null;
  if (subscription) await inbox.ask("push/subscriptions", subscription.toJSON());
}

async function current() {
  const registration = await navigator.serviceWorker.getRegistration(new URL("./", WORKER));
  return (await registration?.pushManager.getSubscription()) ?? null;
}

function sameKey(subscription, publicKey) {
  const key = subscription.options?.applicationServerKey;
  return !key || String(new Uint8Array(key)) === String(bytes(publicKey));
}

function bytes(text) {
  const padded = text.replaceAll("-", "+").replaceAll("_", "/").padEnd(Math.ceil(text.length / 4) * 4, "=");
  return Uint8Array.from(atob(padded), (letter) => letter.charCodeAt(0));
}
