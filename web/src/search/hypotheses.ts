/** What a search returns: captions with their backpointers: `search/hypotheses.py` for one photo.

P paths, the beam size · Q ≤ P rows of attention · L locations · T words, end token excluded. */

import { END, NEVER } from "./filters.ts";
import type { SessionStep } from "./session.ts";

/** What one step of a search keeps, to be read backwards from the end. */
export interface Backpointers extends SessionStep {
  words: number[]; // the last word of each path (P,)
  parents: number[]; // the path of the step before that each path continues (P,)
  scores: number[]; // log p of each path so far (P,), the decoder's own
}

/** One caption that a search found. */
export interface Hypothesis {
  words: number[]; // T word ids, end token excluded
  logProbability: number; // Σ_t log p(y_t), the end token's included when it ended
  filterScore: number; // what filters added to its words, where the search followed the sum
  ended: boolean; // false when the maximum length came before the end token
  wordLogProbabilities: number[]; // log p of each word given those before (T,)
  rows: number[]; // each word's row of α, β and location in its step of the backpointers (T,)
  rerankScore?: number; // r, from 0; given by a reranker
}

/** The hypotheses, from each path's log p, what filters added, and whether it ended, (P,) each.

A path of log p −∞ does not exist. */
export function readBack(
  backpointers: Backpointers[], scores: number[], filtered: number[], finished: boolean[],
): Hypothesis[] {
  if (!scores.some((score) => score > NEVER))
    throw new Error("the decoder's probabilities are not finite numbers: load the page again to get the models anew");
  return scores.flatMap((logProbability, last) => {
    if (!(logProbability > NEVER)) return [];
    const [words, rows, scoresSoFar]: number[][] = [[], [], []];
    let path = last;
    for (const step of backpointers.toReversed()) {
      if (step.words[path] !== END) {
        words.unshift(step.words[path]);
        rows.unshift(step.rows[path]);
        scoresSoFar.unshift(step.scores[path]);
      }
      path = step.parents[path];
    }
    const wordLogProbabilities = scoresSoFar.map((score, at) => score - (scoresSoFar[at - 1] ?? 0));
    const [ended, filterScore] = [finished[last], filtered[last]];
    return [{ words, logProbability, wordLogProbabilities, filterScore, ended, rows }];
  });
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
