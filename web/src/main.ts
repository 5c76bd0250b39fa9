/** The page: photos come in, the worker captions them, and the package's own viewer draws the answers. */

import "../../src/show_attend_tell/show/page/page.css";
import "../../src/show_attend_tell/server/page/app.css";
import "./page.css";
import "../../src/show_attend_tell/show/page/captions.js";
import "../../src/show_attend_tell/show/page/hide.js";
import "../../src/show_attend_tell/server/page/photos.js";
import type { Caption } from "./captioner.ts";
import { ask, captions, element, start } from "./captioning.ts";
import { register } from "./offline.ts";
import { captionsPage, picture } from "./save.ts";

const beamSize = element<HTMLSelectElement>("beam_size");
let cards: Record<string, string> = {};

async function caption(photo: SatPhoto, signal: AbortSignal, say: (text: string) => void): Promise<object[]> {
  await started;
  const [answer, seconds] = await captions(photo.file, photo.name, Number(beamSize.value) || null, say, signal);
  photo.note = `${seconds.toFixed(1)} s on this device`;
  return answer;
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
  hide: (photo, caption, { step, mask }) => ask("hide", photo.file, caption as Caption, step, mask),
  cards: () => cards,
  acts: [
    ["Save picture", (photo) => void save(photo, ".png")],
    ["Save page", (photo) => void save(photo, ".html")],
  ],
});
const started = register(() => page.photos.length === 0).then(start).then(({ models }) => {
  cards = Object.fromEntries(models.map(({ name, card }) => [name, card]));
});
started.catch((error) => page.notice(`This page could not be loaded: ${error.message}.`));
