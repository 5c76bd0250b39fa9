/** The worker that captions, so that the page stays quick. It answers one question after the other. */

import { Captioners, Unreadable, type Caption, type Catalogue, type Seconds } from "./captioner.ts";
import { SlowGpu } from "./encoder.ts";
import { forgoGpu } from "./runtime.ts";

export type Question =
  | { catalogue: Catalogue; base: string; gpu: boolean } // whether a GPU may be used
  | { load: string[] }
  | { photo: Blob; source: string; models: string[]; beamSize: number | null }
  | { hide: Blob; caption: Caption; step: number | null; mask: number[] | null };

export type Answer =
  | { progress: [done: number, total: number] }
  | { device: { gpu: boolean; threads: number } }
  | { captions: Caption[]; seconds: Seconds }
  | { hidden: object }
  | { error: string; again: boolean; slowGpu: boolean }; // whether a second try may succeed; why it failed

let captioners: Captioners;
let before: Promise<void> = Promise.resolve();

self.onmessage = ({ data }: MessageEvent<Question>) => {
  before = before.then(() => answer(data)).catch((error) =>
    say({ error: String(error?.message ?? error), again: !(error instanceof Unreadable), slowGpu: error instanceof SlowGpu }));
};

async function answer(question: Question): Promise<void> {
  if ("catalogue" in question) {
    if (!question.gpu) forgoGpu();
    captioners = new Captioners(question.catalogue, question.base);
  } else if ("load" in question) {
    await captioners.load(question.load, (done, total) => say({ progress: [done, total] }));
    say({ device: await captioners.device() });
  } else if ("hide" in question) {
    say({ hidden: await captioners.hide(question.hide, question.caption, question.step, question.mask) });
  } else {
    const { photo, source, models, beamSize } = question;
    const [captions, seconds] = await captioners.caption(photo, source, models, beamSize);
    say({ captions, seconds });
  }
}

function say(message: Answer): void {
  self.postMessage(message);
}
