/** What a search gives: captions with what the decoder saw on the way: `model/search/hypotheses.py` for one photo.

P paths, the beam · Q ≤ P paths that looked · L locations · T words, end token excluded. */

import type { SessionStep } from "./walker.ts";

export const END = 0;
export const UNKNOWN = 1;
export const NEVER = -Infinity;

/** What one step of a search leaves behind, to be read backwards from the end. */
export interface Backpointers extends SessionStep {
  words: number[]; // said by each path (P,)
  parents: number[]; // the path of the step before that each path continues (P,)
}

/** One caption that a search found. */
export interface Hypothesis {
  words: number[]; // T word ids, end token excluded
  logProbability: number; // Σ_t log p(y_t), the end token's included when it ended
  ended: boolean; // false when the longest length came before the end token
  rows: number[]; // where each word's α, β and location are in its step of the backpointers (T,)
  rerank_score?: number; // A, with the photo, from 0; given by a reranker
}

/** The hypotheses, from each path's log p (P,) and whether it ended (P,). A path of log p −∞ does not exist. */
export function readBack(backpointers: Backpointers[], scores: number[], finished: boolean[]): Hypothesis[] {
  if (!scores.some((score) => score > NEVER))
    throw new Error("the decoder's probabilities are not finite numbers: load the page again to get the models anew");
  return scores.flatMap((logProbability, last) => {
    if (!(logProbability > NEVER)) return [];
    const words: number[] = [];
    const rows: number[] = [];
    let path = last;
    for (const step of backpointers.toReversed()) {
      if (step.words[path] !== END) {
        words.unshift(step.words[path]);
        rows.unshift(step.rows[path]);
      }
      path = step.parents[path];
    }
    return [{ words, logProbability, ended: finished[last], rows }];
  });
}

/** The words that would repeat what a path has said: its last word, and what followed its last two words before. */
export function repeating(said: number[]): number[] {
  const [before, last] = [said.at(-2), said.at(-1)!];
  return [last, ...said.slice(2).filter((_, at) => said[at] === before && said[at + 1] === last)];
}

/** Order captions, the best first: by log p / length^γ + ω A.

Captions that ended come before those that did not, and an empty caption comes last. */
export function ranked(hypotheses: Hypothesis[], lengthPenalty: number, rerankWeight = 0): Hypothesis[] {
  const score = ({ words, ended, logProbability, rerank_score }: Hypothesis) =>
    logProbability / Math.max(1, words.length + Number(ended)) ** lengthPenalty
    + rerankWeight * (rerank_score ?? 0);
  return [...hypotheses].sort((one, other) =>
    Number(other.words.length > 0) - Number(one.words.length > 0)
    || Number(other.ended) - Number(one.ended)
    || score(other) - score(one));
}
