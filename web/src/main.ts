/** The page: photos come in, the worker captions them, and the package's own viewer draws the answers. */

import "../../src/show_attend_tell/show/page/page.css";
import "../../src/show_attend_tell/server/page/app.css";
import "./page.css";
import "../../src/show_attend_tell/show/page/captions.js";
import "../../src/show_attend_tell/show/page/hide.js";
import "../../src/show_attend_tell/server/page/photos.js";
import { filesOf, type Caption, type Catalogue, type Seconds } from "./captioner.ts";
import { keepOnly, missing } from "./download.ts";
import { register } from "./offline.ts";
import { forgoGpu } from "./runtime.ts";
import { captionsPage, picture } from "./save.ts";
import type { Answer, Question } from "./worker.ts";

const base = new URL(".", document.baseURI).href;
const element = <Kind extends HTMLElement>(id: string) => document.getElementById(id) as Kind;
const model = element<HTMLSelectElement>("model");
const beamSize = element<HTMLSelectElement>("beam_size");
const bar = element<HTMLProgressElement>("bar");

const FORMAT = 3; // of models/models.json, as web/models.py writes it
const GPU = "gpu"; // in localStorage: "slow" where this browser's GPU did not answer in time
const newWorker = () => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
let worker = newWorker();
let device = "";
const ready = new Set<string>(); // models that are loaded
let lastSeconds: number | null = null; // of the last photo

const post = (question: Question) => worker.postMessage(question);

/** Ask the worker, one question at a time. */
let before: Promise<unknown> = Promise.resolve();
function ask(question: Question): Promise<Exclude<Answer, { progress: unknown } | { error: string }>> {
  const answer = before.then(() => new Promise<never>((done, fail) => {
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if ("progress" in data) show(...data.progress);
      else if ("error" in data && data.slowGpu) fail(new SlowGpu());
      else if ("error" in data) fail(new SatPhotos.Refused(sentence(data.error), data.again));
      else done(data as never);
    };
    worker.onerror = () => fail(new Error("the worker that captions could not be started"));
    post(question);
  }));
  before = answer.catch(() => {});
  return answer;
}

class SlowGpu extends Error {}
let slowGpu = false;

/** What the browser's storage gives; null where it may store nothing. */
function stored<Value>(ask: () => Value): Value | null {
  try {
    return ask();
  } catch {
    return null;
  }
}

/** Give the worker the models, without the GPU where it was too slow before. */
async function begin(): Promise<void> {
  const gpu = !slowGpu && stored(() => localStorage.getItem(GPU)) !== "slow";
  if (!gpu) forgoGpu();
  post({ catalogue: await catalogue, base, gpu });
}

/** Begin again in a new worker that uses no GPU. */
async function beginAgain(): Promise<void> {
  slowGpu = true;
  stored(() => localStorage.setItem(GPU, "slow"));
  worker.terminate();
  worker = newWorker();
  ready.clear();
  await begin();
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
  try {
    const answer = await ask({ load: wanted }).catch(async (error) => {
      if (!(error instanceof SlowGpu)) throw error;
      await beginAgain();
      return ask({ load: wanted });
    });
    if ("device" in answer) {
      const { gpu, threads } = answer.device;
      device = gpu ? "by WebGPU" : `by WebAssembly on ${threads} thread${threads === 1 ? "" : "s"}`;
    }
    wanted.forEach((name) => ready.add(name));
  } finally {
    element("download").hidden = true;
    element("cost").hidden = false;
    await cost();
  }
}

async function caption(photo: SatPhoto, signal: AbortSignal, say: (text: string) => void): Promise<object[]> {
  await started;
  const names = chosen();
  if (names.some((name) => !ready.has(name))) say("Loading the model …");
  await load(names);
  signal.throwIfAborted();
  say("Captioning …");
  const answer = await ask({
    photo: photo.file, source: photo.name, models: names, beamSize: beamSize.value ? Number(beamSize.value) : null,
  });
  const { captions, seconds } = answer as { captions: Caption[]; seconds: Seconds };
  lastSeconds = seconds.encoding + seconds.search;
  photo.note = `${lastSeconds.toFixed(1)} s on this device`;
  await cost();
  return captions;
}

/** Hide a word's place, or a painted one, and caption the photo again. */
async function hide(photo: SatPhoto, caption: Caption, { step, mask }: SatCaptions.Asked): Promise<object> {
  const { image: _, note: __, ...rest } = caption as Caption & { image: unknown; note: unknown };
  const answer = await ask({ hide: photo.file, caption: rest, step, mask });
  return (answer as { hidden: object }).hidden;
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

async function start(): Promise<void> {
  const found = await catalogue;
  await begin();
  SatPhotos.offer(model, found.models.map(({ name }) => name));
  model.addEventListener("change", () => void cost());
  await cost();
  const files = await filesOf(found, found.models.map(({ name }) => name));
  await keepOnly(files, base);
  if (!(await missing(await filesOf(found, chosen()), base))) void load(chosen()).catch(() => {}); // it costs nothing
}

async function save(photo: SatPhoto, ending: ".png" | ".html"): Promise<void> {
  try {
    page.save(photo, ending === ".png" ? await picture(photo) : await captionsPage(photo, cards), ending);
  } catch (error) {
    page.notice(`${photo.name}${ending} could not be saved: ${(error as Error).message}.`);
  }
}

const page = SatPhotos.open({
  atOnce: 1,
  caption,
  hide: (photo, caption, asked) => hide(photo, caption as Caption, asked),
  cards: () => cards,
  acts: [
    ["Save picture", (photo) => void save(photo, ".png")],
    ["Save page", (photo) => void save(photo, ".html")],
  ],
});
let cards: Record<string, string> = {};
void catalogue.then(({ models }) => { cards = Object.fromEntries(models.map(({ name, card }) => [name, card])); }, () => {});
const started = register(() => page.photos.length === 0).then(start);
started.catch((error) => page.notice(`This page could not be loaded: ${error.message}.`));
