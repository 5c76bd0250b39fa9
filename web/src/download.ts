/** The large files: fetched once with their progress, checked, kept in this browser's Cache Storage, and unpacked. */

/** A file by its address, which changes with its content. */
export interface Stored {
  path: string; // from the page's address
  bytes: number;
  sha256: string;
}

/** What gives a file's content, unpacked. */
export type Fetch = (file: Stored) => Promise<ArrayBuffer>;

/** Bytes that are here, and bytes in all. */
export type Progress = (done: number, total: number) => void;

/** The page's cache; null where there is none: on a page without HTTPS, or in a browser that may store nothing. */
async function cache(base: string): Promise<Cache | null> {
  try {
    return await caches.open(`models ${new URL(base).pathname}`); // other pages of this host have their own
  } catch {
    return null;
  }
}

/** How many bytes of these files are not in this browser yet. */
export async function missing(files: Stored[], base: string): Promise<number> {
  const kept = await cache(base);
  const sizes = files.map(async ({ path, bytes }) => ((await kept?.match(new URL(path, base))) ? 0 : bytes));
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Forget the files of earlier versions of the page. */
export async function keepOnly(files: Stored[], base: string): Promise<void> {
  const kept = await cache(base);
  const wanted = new Set(files.map(({ path }) => new URL(path, base).href));
  for (const request of (await kept?.keys()) ?? []) if (!wanted.has(request.url)) await kept!.delete(request);
}

/** A way to fetch these files together, which tells their progress. Each is kept only when it is whole and right. */
export function fetching(files: Stored[], base: string, progress: Progress): Fetch {
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  let done = 0;
  return async (file) => {
    const url = new URL(file.path, base);
    const kept = await cache(base);
    const known = await kept?.match(url);
    let content: ArrayBuffer;
    if (known) {
      content = await known.arrayBuffer();
      progress((done += file.bytes), total);
    } else {
      content = await received(url, file, (bytes) => progress((done += bytes), total));
      await kept?.put(url, new Response(content)).catch(() => {}); // without room it is fetched again next time
    }
    return new Response(new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  };
}

/** A file from the network. Throws when it is not there, not whole, or another one. */
async function received(url: URL, file: Stored, arrived: (bytes: number) => void): Promise<ArrayBuffer> {
  const response = await fetch(url);
  if (!response.ok || !response.body) throw new Error(`${url.pathname} could not be fetched (${response.status})`);
  const content = new Uint8Array(file.bytes);
  let at = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length <= file.bytes) content.set(value, at);
    at += value.length;
    arrived(value.length);
  }
  const checkable = "subtle" in crypto; // it is not where a page came without HTTPS
  if (at !== file.bytes || (checkable && (await digest(content)) !== file.sha256))
    throw new Error(`${url.pathname} arrived damaged: load the page again`);
  return content.buffer;
}

/** The SHA-256 in hexadecimal. */
async function digest(content: Uint8Array<ArrayBuffer>): Promise<string> {
  const hashed = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(hashed, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
