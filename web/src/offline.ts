/** The service worker: it keeps the page for use without a network, and adds the headers that threads need. */

const TRIED = "isolated"; // in sessionStorage, so that a browser that cannot isolate the page is not asked again and again

/** Register it. When the page could get threads by it, and `idle()`, the page is loaded again under it. */
export async function register(idle: () => boolean): Promise<void> {
  if (!("serviceWorker" in navigator) || import.meta.env.DEV) return;
  try {
    await navigator.serviceWorker.register("sw.js", { updateViaCache: "none" });
    if (self.crossOriginIsolated || sessionStorage.getItem(TRIED)) return;
    await controlled();
    if (!idle()) return;
    sessionStorage.setItem(TRIED, "yes");
    location.reload();
    await new Promise(() => {}); // until the page is gone
  } catch {
    // the page works without it, on one thread and with the network
  }
}

/** Resolves when a service worker answers for this page. */
function controlled(): Promise<void> {
  if (navigator.serviceWorker.controller) return Promise.resolve();
  return new Promise((done) => {
    navigator.serviceWorker.addEventListener("controllerchange", () => done(), { once: true });
  });
}
