/** The service worker. It answers for the page's own files, and adds headers that a static file server does not have.

The files of the page itself are kept when it is installed. Models are kept by the page, once they are checked. */

declare const __SHELL__: { version: string; files: string[]; headers: Record<string, string> };

const worker = self as unknown as ServiceWorkerGlobalScope;
const { version, files, headers } = __SHELL__;
const root = new URL(".", worker.location.href);
const OURS = `page ${root.pathname} `; // other pages of this host have caches too
const SHELL = OURS + version;
const CATALOGUE = "models/models.json"; // may change without the page

worker.addEventListener("install", (event) => {
  const requests = files.map((file) => new Request(new URL(file, root), { cache: "reload" }));
  event.waitUntil(caches.open(SHELL).then((cache) => cache.addAll(requests)));
});

worker.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    const old = (await caches.keys()).filter((name) => name.startsWith(OURS) && name !== SHELL);
    await Promise.all(old.map((name) => caches.delete(name)));
    await worker.clients.claim();
  })());
});

worker.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || !url.href.startsWith(root.href)) return;
  event.respondWith(answer(event.request, url.href.slice(root.href.length).split(/[?#]/)[0]).then(secured));
});

async function answer(request: Request, path: string): Promise<Response> {
  if (path === CATALOGUE) return newest(request);
  const name = request.mode === "navigate" && path === "" ? "index.html" : path;
  return (await caches.match(new URL(name, root))) ?? fetch(request);
}

/** A file from the network, or as it was the last time. */
async function newest(request: Request): Promise<Response> {
  const cache = await caches.open(`catalogue ${root.pathname}`);
  try {
    const response = await fetch(request, { cache: "no-cache" });
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const known = await cache.match(request);
    if (known) return known;
    throw error;
  }
}

/** A response with the headers of this page. */
function secured(response: Response): Response {
  const all = new Headers(response.headers);
  for (const [name, value] of Object.entries(headers)) all.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers: all });
}
