// The service worker of pushes: shows what was pushed, and opens where it leads. It has no fetch handler: no page of the
// site loads through it, and none can break by it.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const said = read(event.data);
  const options = { body: said.body ?? "", tag: said.tag ?? "", timestamp: said.at, data: { url: said.url ?? null } };
  if (options.tag) options.renotify = true; // One that replaces another is heard all the same.
  const title = said.total > 1 ? `${said.total} new: ${said.title}` : said.title;
  event.waitUntil(self.registration.showNotification(title || "Something new", options));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(event.notification.data?.url));
});

// Browsers want something to be shown for each push, whatever came.
function read(data) {
  try {
    const said = data.json();
    return said && typeof said === "object" ? said : {};
  } catch {
    return {};
  }
}

// To a tab that shows it already, else to a new one. What is no page of the web leads to the inbox.
async function lead(url) {
  const inbox = self.registration.scope;
  const target = URL.canParse(url ?? "./", inbox) ? new URL(url ?? "./", inbox) : null;
  const href = ["https:", "http:"].includes(target?.protocol) ? target.href : inbox;
  const tabs = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = tabs.find((tab) => tab.url === href);
  return there ? there.focus() : self.clients.openWindow(href);
}
