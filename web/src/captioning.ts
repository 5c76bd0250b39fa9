/** What both pages ask of the worker that captions, and what they say of its download. */

import { filesOf, type Caption, type Captioners, type Catalogue } from "./captioner.ts";
import { keepOnly, missing } from "./download.ts";
import { SlowGpu } from "./encoder.ts";
import { forgoGpu } from "./runtime.ts";
import type { Beginning, Given, Message, Method } from "./worker.ts";

const base = new URL(".", document.baseURI).href;
export const element = <Kind extends HTMLElement>(id: string) => document.getElementById(id) as Kind;
const model = element<HTMLSelectElement>("model");
const bar = element<HTMLProgressElement>("bar");

const FORMAT = 4; // of models/models.json, as web/models.py writes it
const GPU = "gpu"; // in localStorage: "slow" where this browser's GPU did not answer in time
let gpu = stored(() => localStorage.getItem(GPU)) !== "slow"; // whether it may be used
let worker: Worker;
let device = "";
const ready = new Set<string>(); // models that are loaded
let lastSeconds: number | null = null; // of the last photo

/** Ask the worker for what a method gives, one question at a time. */
let before: Promise<unknown> = Promise.resolve();
export function ask<Name extends Method>(method: Name, ...values: Parameters<Captioners[Name]>): Promise<Given<Name>> {
  const answer = before.then(() => new Promise<Given<Name>>((done, fail) => {
    worker.onmessage = ({ data }: MessageEvent<Message>) => {
      if ("progress" in data) show(...data.progress);
      else if ("answer" in data) done(data.answer as Given<Name>);
      else fail(data.slowGpu ? new SlowGpu() : new SatPhotos.Refused(sentence(data.error), data.again));
    };
    worker.onerror = () => fail(new Error("the worker that captions could not be started"));
    worker.postMessage({ method, values });
  }));
  before = answer.catch(() => {});
  return answer;
}

/** What the browser's storage gives; null where it may store nothing. */
function stored<Value>(ask: () => Value): Value | null {
  try {
    return ask();
  } catch {
    return null;
  }
}

/** Begin in a new worker, which gets the models. */
function begin(catalogue: Catalogue): void {
  if (!gpu) forgoGpu();
  ready.clear();
  worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  worker.postMessage({ catalogue, base, gpu } satisfies Beginning);
}

const sentence = (text: string) => `${text[0].toUpperCase()}${text.slice(1)}.`;
const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;

function show(done: number, total: number): void {
  element("download").hidden = done >= total;
  element("cost").hidden = done < total;
  bar.value = done / total;
  element("arrived").textContent = `${(done / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB, once`;
}

const catalogue: Promise<Catalogue> = fetch(new URL("models/models.json", base)).then(async (response) => {
  if (!response.ok) throw new Error(`models/models.json could not be fetched (${response.status})`);
  const found = await response.json();
  if (found.format !== FORMAT) throw new Error("its models are of another version. Close all its tabs, and open it again");
  return found;
});
const chosen = (): string[] => JSON.parse(model.value);

async function load(names: string[]): Promise<void> {
  const wanted = names.filter((name) => !ready.has(name));
  if (!wanted.length) return;
  const found = await catalogue;
  try {
    const answer = await ask("load", wanted).catch((error) => {
      if (!(error instanceof SlowGpu)) throw error;
      gpu = false;
      stored(() => localStorage.setItem(GPU, "slow"));
      worker.terminate();
      begin(found); // before what waits is asked
      return ask("load", wanted);
    });
    const threads = `${answer.threads} thread${answer.threads === 1 ? "" : "s"}`;
    device = answer.gpu ? "by WebGPU" : `by WebAssembly on ${threads}`;
    wanted.forEach((name) => ready.add(name));
  } finally {
    element("download").hidden = true;
    element("cost").hidden = false;
    await cost();
  }
}

/** The captions of a photo by the models that are chosen, and the seconds that they took. */
export async function captions(
  photo: File, source: string, beamSize: number | null, say: (text: string) => void, signal?: AbortSignal,
): Promise<[Caption[], seconds: number]> {
  const names = chosen();
  if (names.some((name) => !ready.has(name))) say("Loading the model …");
  await load(names);
  signal?.throwIfAborted();
  say("Captioning …");
  const answer = await ask("caption", photo, source, names, beamSize);
  lastSeconds = answer[1];
  await cost();
  return answer;
}

/** Say what the page costs: megabytes that are still to come, and seconds a photo. */
async function cost(): Promise<void> {
  const names = chosen();
  const files = await filesOf(await catalogue, names);
  const all = files.reduce((sum, file) => sum + file.bytes, 0);
  const left = await missing(files, base);
  const size = left
    ? `The first caption downloads ${megabytes(left)}, once.`
    : `The model (${megabytes(all)}) is kept in this browser: no network is needed.`;
  const time = lastSeconds === null ? "" : ` The last photo took ${lastSeconds.toFixed(1)} s here, ${device}.`;
  element("cost").textContent = size + time;
}

/** Offer the models, and keep only their files. */
export async function start(): Promise<Catalogue> {
  const found = await catalogue;
  const names = found.models.map(({ name }) => name);
  begin(found);
  SatPhotos.offer(model, names);
  model.addEventListener("change", () => void cost());
  await cost();
  await keepOnly(await filesOf(found, names), base);
  if (!(await missing(await filesOf(found, chosen()), base))) void load(chosen()).catch(() => {}); // it costs nothing
  return found;
}
