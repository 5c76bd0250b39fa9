/** The worker that captions, so that the page stays quick. The page asks it one question after the other. */

import { Captioners, Unreadable, type Catalogue } from "./captioner.ts";
import { SlowGpu } from "./encoder.ts";
import { forgoGpu } from "./runtime.ts";

/** What comes first; `gpu` says whether a GPU may be used. */
export type Beginning = { catalogue: Catalogue; base: string; gpu: boolean };

/** A method of `Captioners` that the page may call, and what the method gives. */
export type Method = "load" | "caption" | "hide";
export type Given<Name extends Method> = Awaited<ReturnType<Captioners[Name]>>;

export type Message =
  | { progress: [done: number, total: number] }
  | { answer: unknown }
  | { error: string; again: boolean; slowGpu: boolean }; // whether a second try may succeed; why it failed

let captioners: Captioners;

self.onmessage = async ({ data }: MessageEvent<Beginning | { method: Method; values: unknown[] }>) => {
  if ("catalogue" in data) {
    if (!data.gpu) forgoGpu();
    captioners = new Captioners(data.catalogue, data.base, (done, total) => say({ progress: [done, total] }));
    return;
  }
  try {
    say({ answer: await Reflect.apply(captioners[data.method], captioners, data.values) });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    say({ error: text, again: !(error instanceof Unreadable), slowGpu: error instanceof SlowGpu });
  }
};

function say(message: Message): void {
  self.postMessage(message);
}
