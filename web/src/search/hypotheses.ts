/** What a search returns: captions with their backpointers: `search/hypotheses.py` for one photo.

P paths, the beam size · T words, end token excluded. */

import { END, NEVER } from "./filters.ts";
import type { Attended } from "./session.ts";

/** What one step of a search keeps, to be read backwards from the end. */
export interface Backpointers {
  words: number[]; // the last word of each path (P,)
  parents: number[]; // the path of the step before that each path continues (P,)
  scores: number[]; // log p of each path so far (P,), the decoder's own
  attended: Attended[]; // the attention of each path (P,)
}

/** One caption that a search found. */
export interface Hypothesis {
  words: number[]; // T word ids, end token excluded
  logProbability: number; // Σ_t log p(y_t), the end token's included when it ended
  filterScore: number; // what filters added to its words, where the search followed the sum
  ended: boolean; // false when the maximum length came before the end token
  wordLogProbabilities: number[]; // log p of each word given those before (T,)
  attended: Attended[]; // (T,)
  rerankScore?: number; // r, from 0; given by a reranker
}

/** The hypotheses, from what filters added to each path, and whether it ended, (P,) each.

A path of log p −∞ does not exist. */
export function readBack(backpointers: Backpointers[], filtered: number[], finished: boolean[]): Hypothesis[] {
  const found = backpointers.at(-1)!.scores.flatMap((logProbability, last) => {
    if (!(logProbability > NEVER)) return [];
    const [words, attended, scores]: [number[], Attended[], number[]] = [[], [], []];
    let path = last;
    for (const step of backpointers.toReversed()) {
      if (step.words[path] !== END) {
        words.unshift(step.words[path]);
        attended.unshift(step.attended[path]);
        scores.unshift(step.scores[path]);
      }
      path = step.parents[path];
    }
    const wordLogProbabilities = scores.map((score, at) => score - (scores[at - 1] ?? 0));
    return [{ words, logProbability, wordLogProbabilities, filterScore: filtered[last], ended: finished[last], attended }];
  });
  if (found.length) return found;
  throw new Error("the decoder's probabilities are not finite numbers: load the page again to get the models anew");
}

/** Order captions, the best first: by (log p + f) / length^γ + ω r, with the filter score f.

Captions that ended come before those that did not, and an empty caption comes last. */
export function ranked(hypotheses: Hypothesis[], lengthPenalty: number, rerankWeight = 0): Hypothesis[] {
  const score = ({ words, ended, logProbability, filterScore, rerankScore }: Hypothesis) =>
    (logProbability + filterScore) / Math.max(1, words.length + Number(ended)) ** lengthPenalty
    + rerankWeight * (rerankScore ?? 0);
  return [...hypotheses].sort((one, other) =>
    Number(other.words.length > 0) - Number(one.words.length > 0)
    || Number(other.ended) - Number(one.ended)
    || score(other) - score(one));
}
