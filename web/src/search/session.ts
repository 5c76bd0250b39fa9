/** What a search knows of a decoder: `search/session.py` for one photo.

P′ running paths · Q rows of attention · L locations · N continuations · T words, end token excluded. */

import type { Added } from "./filters.ts";

/** The attention of one step of a path. */
export interface Attended {
  alpha: Float32Array | null; // (L,); null for a decoder without attention
  beta: number | null; // null without a gate
  location: number | null; // null for the attention mode "mean"
  hidden: Float32Array; // h and c before the step (n,), for the evidence
  memory: Float32Array;
}

/** What a step gives: paths with the same words but for their last have the same attention. */
export interface SessionStep {
  rows: number[]; // the row of each path in what follows (P′,)
  attended: Attended[]; // (Q,)
}

/** The best continuations of the paths, (N,) each, the best first. */
export interface Continuations {
  scores: number[]; // of the path and its next word: their log p, and what filters added
  paths: number[];
  words: number[];
}

/** A decoder with its state for some paths of the same number of words. */
export interface DecoderSession {
  readonly vocabularySize: number; // K; this is also the id of the word before the first

  /** Append a word to each path (P′,), and attend to the photo for the words after them. */
  step(words: number[]): Promise<SessionStep>;

  /** The `count` best continuations of the paths, or all where there are fewer.

  Gets the scores of the paths (P′,), and what is added to log p of the words after each (P′,). */
  best(before: number[], count: number, added: Added[]): Promise<Continuations>;

  /** Go on with these `paths` (P″,), in this order. */
  reorder(paths: number[]): void;
}

/** The different numbers of paths, in order, and where each path's is. */
export function distinct(paths: number[]): [numbers: number[], rows: number[]] {
  const numbers = [...new Set(paths)].sort((one, other) => one - other);
  return [numbers, paths.map((path) => numbers.indexOf(path))];
}

/** log p of each word of a caption, given those before it (T,): teacher forcing by a session that has just started. */
export async function logProbabilities(words: number[], session: DecoderSession): Promise<number[]> {
  const found = [];
  let previous = session.vocabularySize;
  for (const word of words) {
    await session.step([previous]);
    const all = await session.best([0], session.vocabularySize, [{ ids: [], weights: [] }]);
    found.push(all.scores[all.words.indexOf(word)]);
    session.reorder([0]);
    previous = word;
  }
  return found;
}
