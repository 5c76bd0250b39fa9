/** The reranker: `rerank/` of Python for one photo.

L locations · D annotation size · C ≤ D channels · M = C(C+1)/2 second moments · R directions · G n-grams. */

import type { Arrays, Numbers } from "../safetensors.ts";
import type { Hypothesis } from "../search/hypotheses.ts";
import { rerankScore, type Ngram } from "./ngrams.ts";

const SELDOM = 1e-4; // share of captions; a word that is rarer counts as rare as this

/** Annotations (L, D) of a photo, row by row. */
export interface Annotations {
  data: Float32Array;
  size: number; // D
}

/** The visual n-grams of a file: which n-grams the captions of a photo are expected to have. */
export class VisualNgrams {
  private readonly channels: Numbers; // (C,)
  private readonly offset: Numbers; // (R,)
  private readonly shares: Numbers; // (G, R), rows times the next
  private readonly shareScale: Numbers | null;
  private readonly prior: Numbers; // (G,)
  private readonly directions: Numbers; // (R, M), in 4 bits two to a byte, rows times the next
  private readonly directionScale: Numbers | null;
  private readonly length: number; // the mean length of training captions in words
  private readonly numbers: Map<Ngram, number>;
  private readonly common: Float32Array; // (G,), how common the n-gram is, counted once
  private readonly single: boolean[]; // (G,), which of them are words

  constructor(arrays: Arrays) {
    const of = (name: string) => {
      const array = arrays.get(name);
      if (!array) throw new Error(`the reranker's file has no ${name}`);
      return array.data;
    };
    const scale = (name: string) => arrays.get(`${name}.scale`)?.data ?? null;
    [this.channels, this.offset, this.prior] = [of("channels"), of("offset"), of("prior")];
    [this.shares, this.shareScale] = [of("shares"), scale("shares")];
    [this.directions, this.directionScale] = [of("directions"), scale("directions")];
    this.length = of("length")[0];
    const ngrams = of("ngrams");
    const known = Array.from(this.prior, (_, number) => [...ngrams.slice(4 * number, 4 * number + 4)]);
    const text = (ngram: number[]) => ngram.filter((part) => part >= 0).join(" ");
    this.numbers = new Map(known.map((ngram, number) => [text(ngram), number]));
    this.common = Float32Array.from(known, ([, ...words], number) =>
      Math.max(this.prior[this.numbers.get(text([0, ...words])) ?? number], SELDOM));
    this.single = known.map((ngram) => ngram[2] < 0);
  }

  /** The hypotheses of a photo with their rerank scores, by the photo's annotations. */
  addScores(annotations: Annotations, found: Hypothesis[], rareWordExponent: number): Hypothesis[] {
    const weights = this.weights(rareWordExponent);
    const shares = this.expected(annotations).map((share, number) => share * weights[number]);
    return found.map((hypothesis) => ({
      ...hypothesis, rerankScore: rerankScore(hypothesis.words, shares, this.numbers, this.length),
    }));
  }

  /** The shares of captions that are expected to have each n-gram (G,). */
  expected(annotations: Annotations): Float32Array {
    const along = this.along(secondMoments(annotations, this.channels)).map((value, at) => value - this.offset[at]);
    return Float32Array.from(this.prior, (prior, number) => {
      let sum = 0;
      for (let at = 0; at < along.length; at++) sum += along[at] * this.shares[number * along.length + at];
      return Math.max(0, prior + sum * (this.shareScale?.[number] ?? 1));
    });
  }

  /** What is expected of a word by `expected` (G,): the share of captions, and that of all training captions. */
  share(expected: Float32Array, word: number): [number, number] {
    const number = this.numbers.get(`0 ${word}`);
    return number === undefined ? [0, 0] : [expected[number], this.prior[number]];
  }

  /** The products of the second moments (M,) with the directions (R,). */
  private along(moments: Float32Array): Float32Array {
    const rows = this.offset.length;
    if (!(this.directions instanceof Uint8Array)) {
      const scale = (row: number) => this.directionScale?.[row] ?? 1;
      return Float32Array.from({ length: rows }, (_, row) => {
        let sum = 0;
        for (let at = 0; at < moments.length; at++) sum += moments[at] * this.directions[row * moments.length + at];
        return sum * scale(row);
      });
    }
    const bytes = Math.ceil(moments.length / 2);
    const even = new Float32Array(2 * bytes);
    even.set(moments);
    return Float32Array.from({ length: rows }, (_, row) => {
      let sum = 0;
      for (let byte = 0, at = row * bytes; byte < bytes; byte++, at++) {
        const two = this.directions[at];
        sum += even[2 * byte] * ((two & 15) - 8) + even[2 * byte + 1] * ((two >> 4) - 8);
      }
      return sum * this.directionScale![row];
    });
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

/** Annotations with mean 0 and variance 1 over their channels. */
function normalized({ data, size }: Annotations): Float32Array {
  const found = new Float32Array(data.length);
  for (let start = 0; start < data.length; start += size) {
    let mean = 0;
    for (let at = start; at < start + size; at++) mean += data[at] / size;
    let variance = 0;
    for (let at = start; at < start + size; at++) variance += (data[at] - mean) ** 2 / size;
    const spread = Math.sqrt(variance + 1e-5);
    for (let at = start; at < start + size; at++) found[at] = (data[at] - mean) / spread;
  }
  return found;
}

/** The second moments of the channels over the locations, signed roots, of length one (M,). */
export function secondMoments(annotations: Annotations, channels: Numbers): Float32Array {
  const normal = normalized(annotations);
  const locations = normal.length / annotations.size;
  const columns = Array.from(channels, (channel) =>
    Float32Array.from({ length: locations }, (_, location) => normal[location * annotations.size + channel]));
  const found = new Float32Array((columns.length * (columns.length + 1)) / 2);
  let at = 0;
  let length = 0;
  for (let one = 0; one < columns.length; one++) {
    for (let other = one; other < columns.length; other++, at++) {
      let sum = 0;
      for (let location = 0; location < locations; location++) sum += columns[one][location] * columns[other][location];
      found[at] = Math.sign(sum) * Math.sqrt(Math.abs(sum));
      length += Math.abs(sum);
    }
  }
  return found.map((value) => value / Math.max(Math.sqrt(length), 1e-12));
}
