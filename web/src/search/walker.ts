/** What a search knows of a decoder: `model/search/session.py` for one photo.

P′ paths that are followed · Q rows in which the decoder looked · L locations · N continuations. */

/** What a session looked at in one step. */
export interface SessionStep {
  rows: number[]; // where α, β and the location of each path are in the next three (P′,)
  alpha: Float32Array | null; // (Q, L); null for a decoder without attention
  beta: Float32Array | null; // (Q,); null without a gate
  locations: number[] | null; // (Q,); null when looking by expectation
}

/** The best ways to go on for the paths, (N,) each, the best first. */
export interface Continuations {
  scores: number[]; // log p of the path and its next word
  paths: number[];
  words: number[];
}

/** A decoder on its way along some paths of the same number of words. */
export interface Session {
  readonly vocabularySize: number; // K; this is also the id of the word before the first

  /** Say the words (P′,) along the paths, and look for the words after them. */
  step(words: number[]): Promise<SessionStep>;

  /** The `count` best continuations of the paths, or all where there are fewer.

  Gets log p of the paths (P′,), the words that no path may say, and those that each path may not say `again`. */
  best(before: number[], count: number, forbidden: number[], banned: number[][] | null): Promise<Continuations>;

  /** Go on with these `paths` (P″,). */
  reorder(paths: number[]): void;
}

/** The different numbers of paths, in order, and where each path's is. */
export function distinct(paths: number[]): [numbers: number[], rows: number[]] {
  const numbers = [...new Set(paths)].sort((one, other) => one - other);
  return [numbers, paths.map((path) => numbers.indexOf(path))];
}
