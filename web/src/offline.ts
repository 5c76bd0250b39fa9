/** The service worker: it keeps the page for use without a network, and adds the headers that threads need. */

const TRIED = "isolated"; // in sessionStorage, so that a browser that cannot isolate the page is not asked again and again
const PATIENCE = 10_000; // milliseconds until the page starts without it

/** Register it. When the page could get threads by it, and `idle()`, the page is loaded again under it. */
export async function register(idle: () => boolean): Promise<void> {
  if (!("serviceWorker" in navigator) || import.meta.env.DEV) return;
  try {
    const registration = await navigator.serviceWorker.register("sw.js", { updateViaCache: "none" });
    if (self.crossOriginIsolated || self !== self.top || sessionStorage.getItem(TRIED)) return; // a frame gets no threads
    if (!(await answers(registration)) || !idle()) return;
    sessionStorage.setItem(TRIED, "yes");
    location.reload();
    await new Promise(() => {}); // until the page is gone
  } catch {
    // the page works without it, on one thread and with the network
  }
}

/** Whether a service worker answers for this page when it is loaded again. A new one must be installed first. */
function answers(registration: ServiceWorkerRegistration): Promise<boolean> {
  if (navigator.serviceWorker.controller || registration.active) return Promise.resolve(true);
  return new Promise((done) => {
    navigator.serviceWorker.addEventListener("controllerchange", () => done(true), { once: true });
    const coming = registration.installing ?? registration.waiting;
    coming?.addEventListener("statechange", () => coming.state === "redundant" && done(false)); // it could not be installed
    setTimeout(() => done(false), PATIENCE);
  });
}
