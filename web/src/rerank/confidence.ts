/** How far each noun of a caption can be trusted: `rerank/confidence.py` of Python for one photo.

T words, end token excluded · J judged words of the vocabulary · F features. */

import type { Arrays, Numbers } from "../safetensors.ts";
import type { Hypothesis } from "../search/hypotheses.ts";
import { logProbabilities, type DecoderSession } from "../search/session.ts";
import type { PhotoWords } from "./class-words.ts";
import type { VisualNgrams } from "./visual-ngrams.ts";

const LEAST_SHARE = 1e-3; // share of captions; a word that is expected less counts as this

/** What a model's file says of the words that are judged. */
export class Confidence {
  private readonly judged: Map<number, { offset: number; scale: number }>; // what is added to the log odds of each word, and their scale
  private readonly weights: Numbers; // (F,)

  constructor(arrays: Arrays) {
    const [words, offsets, weights] = ["words", "offsets", "weights"].map((name) => arrays.get(`confidence.${name}`)!);
    const scales = arrays.get("confidence.scales"); // older models have none
    this.judged = new Map(Array.from(words, (word, at) => [word, { offset: offsets[at], scale: scales?.[at] ?? 1 }]));
    this.weights = weights;
  }

  /** The confidence of each word of the best caption (T,), null where a word is not judged.

  `found` are all captions of the search, `expected` is what the `ngrams` expect, `seen` are the photo's class words,
  `blind` is a session that starts at annotations of zeros, and the name of a class stands at the place `nameAt`. */
  async of(
    best: Hypothesis, found: Hypothesis[], ngrams: VisualNgrams | null, expected: Float32Array | null,
    seen: PhotoWords | null, blind: DecoderSession, nameAt: number,
  ): Promise<(number | null)[]> {
    const without = await logProbabilities(best.words, blind);
    const mean = best.logProbability / (best.words.length + Number(best.ended));
    return best.words.map((word, time) => {
      if (time === nameAt) return seen!.confidenceOfName;
      const judged = this.judged.get(word);
      if (!judged) return null;
      const logProbability = best.wordLogProbabilities[time];
      const features = [
        clipped(logProbability, -6, 0),
        clipped(logProbability - without[time], -5, 10),
        found.filter(({ words }) => words.includes(word)).length / found.length,
      ];
      if (expected) {
        const [share, usual] = ngrams!.share(expected, word);
        const [logShare, logUsual] = [share, usual].map((each) => Math.log(Math.max(each, LEAST_SHARE)));
        features.push(Math.sqrt(share), logShare, logShare - logUsual);
      }
      if (seen && features.length < this.weights.length) features.push(mean, ...seen.features(word));
      const total = features.reduce((sum, feature, at) => sum + feature * this.weights[at], judged.offset);
      return 1 / (1 + Math.exp(-judged.scale * total));
    });
  }
}

const clipped = (value: number, least: number, most: number) => Math.min(most, Math.max(least, value));
