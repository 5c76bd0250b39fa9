/** The rerank score of captions by the n-grams that a photo's captions are expected to have: `rerank/` of Python. */

import { UNKNOWN } from "../search/filters.ts";

const LONGEST = 3; // words of an n-gram

/** How often the same words came before in the caption, then the words' ids, as a text: "0 17 4". */
export type Ngram = string;

/** The n-grams of a caption, of 1 to 3 words, and the number of words of each. Those with an unknown word are left out. */
export function counted(words: number[]): { ngram: Ngram; length: number }[] {
  const found = [];
  for (let length = 1; length <= LONGEST; length++) {
    const before = new Map<string, number>();
    for (let start = 0; start + length <= words.length; start++) {
      const part = words.slice(start, start + length);
      if (part.includes(UNKNOWN)) continue;
      const text = part.join(" ");
      const times = before.get(text) ?? 0;
      before.set(text, times + 1);
      found.push({ ngram: `${times} ${text}`, length });
    }
  }
  return found;
}

/** The rerank score of a caption, given the expected share of captions with each n-gram, times its weight (G,).

It is the mean over n = 1, 2, 3 of 2 Σ_g w_g E[g] / (N_c + N_t). g runs over the caption's n-grams, N_c is their number,
and N_t that of a training caption of mean length. */
export function rerankScore(
  words: number[], shares: Float32Array, numbers: Map<Ngram, number>, usualLength: number,
): number {
  const found: number[] = Array(LONGEST).fill(0);
  for (const { ngram, length } of counted(words)) {
    const number = numbers.get(ngram);
    if (number !== undefined) found[length - 1] += shares[number];
  }
  const sum = found.reduce((total, have, n) => total + have / Math.max(1, (words.length + usualLength) / 2 - n), 0);
  return sum / LONGEST;
}
