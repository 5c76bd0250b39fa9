/** The reranker: `rerank/` of Python for one photo.

G n-grams. */

import type { InferenceSession, Tensor } from "onnxruntime-web";
import type { Arrays, Numbers } from "../safetensors.ts";
import type { Hypothesis } from "../search/hypotheses.ts";
import { rerankScore, type Ngram } from "./ngrams.ts";

const SELDOM = 1e-4; // share of captions; a word that is rarer counts as rare as this

/** The visual n-grams of a file: which n-grams the captions of a photo are expected to have. */
export class VisualNgrams {
  private readonly prior: Numbers; // (G,)
  private readonly length: number; // the mean length of training captions in words
  private readonly numbers: Map<Ngram, number>;
  private readonly common: Float32Array; // (G,), how common the n-gram is, counted once
  private readonly single: boolean[]; // (G,), which of them are words

  /** Take a file's arrays, and the session of its graph. */
  constructor(arrays: Arrays, private readonly graph: InferenceSession) {
    const [prior, length, ngrams] = ["prior", "length", "ngrams"].map((name) => arrays.get(name)!);
    this.prior = prior;
    this.length = length[0];
    const known = Array.from(this.prior, (_, number) => [...ngrams.slice(4 * number, 4 * number + 4)]);
    const text = (ngram: number[]) => ngram.filter((part) => part >= 0).join(" ");
    this.numbers = new Map(known.map((ngram, number) => [text(ngram), number]));
    this.common = Float32Array.from(known, ([, ...words], number) =>
      Math.max(this.prior[this.numbers.get(text([0, ...words])) ?? number], SELDOM));
    this.single = known.map((ngram) => ngram[2] < 0);
  }

  /** The shares of captions that are expected to have each n-gram (G,), by annotations (1, L, D). */
  async expected(annotations: Tensor): Promise<Float32Array> {
    return (await this.graph.run({ annotations })).expected.data as Float32Array;
  }

  /** The hypotheses of a photo with their rerank scores, by what is expected of it (G,). */
  addScores(expected: Float32Array, found: Hypothesis[], rareWordExponent: number): Hypothesis[] {
    const weights = this.weights(rareWordExponent);
    const shares = expected.map((share, number) => share * weights[number]);
    return found.map((hypothesis) => ({
      ...hypothesis, rerankScore: rerankScore(hypothesis.words, shares, this.numbers, this.length),
    }));
  }

  /** What is expected of a word by `expected` (G,): the share of captions, and that of all training captions. */
  share(expected: Float32Array, word: number): [number, number] {
    const number = this.numbers.get(`0 ${word}`);
    return number === undefined ? [0, 0] : [expected[number], this.prior[number]];
  }

  /** How much each n-gram counts in the rerank score (G,). */
  weights(rareWordExponent: number): Float32Array {
    const powers = this.common.map((share) => share ** -rareWordExponent);
    let plain = 0;
    let weighted = 0;
    this.prior.forEach((share, number) => {
      if (!this.single[number]) return;
      plain += share ** 2;
      weighted += share ** 2 * powers[number];
    });
    return Float32Array.from(powers, (power, number) => (this.single[number] ? (power * plain) / weighted : 1));
  }
}
