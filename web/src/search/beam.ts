/** Beam search over any `DecoderSession`; a beam size of 1 is greedy search: `search/beam.py` for one photo.

P paths, the beam size · P′ running paths · N continuations · t words so far. */

import { END, NEVER, addedTo, apply, type Filter } from "./filters.ts";
import { ranked, readBack, type Hypothesis, type Backpointers } from "./hypotheses.ts";
import type { DecoderSession } from "./session.ts";

/** How captions are made: what a model's `models.json` has of `GenerationConfig` of Python. */
export interface GenerationConfig {
  beam_size: number;
  attention_mode: string;
  length_penalty: number;
  rerank_weight: number;
  rare_word_exponent: number;
  max_length: number;
  allow_repetitions: boolean;
  repetition_cost: number; // nats
  class_weight: number;
}

/** The best captions that a beam search finds, best first.

Scores are sums of log-probabilities, never renormalized over the allowed words, and of what the filters add. A finished
path is frozen: it keeps its score, and its rank until better paths push it out. The search ends when every path is
finished, or after `max_length` words, the end token counted. */
export async function search(
  session: DecoderSession,
  generation: Pick<GenerationConfig, "beam_size" | "max_length" | "length_penalty">,
  filters: Filter[],
): Promise<Hypothesis[]> {
  const { beam_size: beam, max_length: maxLength, length_penalty: lengthPenalty } = generation;
  let scores: number[] = Array(beam).fill(NEVER);
  scores[0] = 0; // all paths are equal at first: only one may have children
  let filtered: number[] = Array(beam).fill(0); // what the filters added, as part of the scores
  let finished: boolean[] = Array(beam).fill(false);
  let live = [0]; // running paths (P′,)
  let words = [session.vocabularySize];
  let texts: number[][] = [[]]; // the words of each running path (P′, t)
  const backpointers: Backpointers[] = [];

  for (let time = 0; time < maxLength; time++) {
    const step = await session.step(words);
    const before = live.map((path) => (finished[path] ? NEVER : scores[path])); // (P′,)
    const added = texts.map((text) => apply(filters, text));
    const next = await session.best(before, beam, added);
    // a finished path has one child: itself, at no cost
    const children = [...scores.map((score, path) => (finished[path] ? score : NEVER)), ...next.scores]; // (P + N,)
    const chosen = largest(children, beam);
    const frozen = chosen.map((child) => child < beam);
    const path = chosen.map((child, at) => (frozen[at] ? Math.min(child, live.length - 1) : next.paths[child - beam]));
    const parents = chosen.map((child, at) => (frozen[at] ? child : live[path[at]]));
    words = chosen.map((child, at) => (frozen[at] ? END : next.words[child - beam]));
    scores = chosen.map((child) => children[child]);
    filtered = parents.map((parent, at) =>
      filtered[parent] + (frozen[at] ? 0 : addedTo(words[at], added[path[at]])));
    const logProbabilities = scores.map((score, at) => score - filtered[at]);
    const attended = path.map((one) => step.attended[step.rows[one]]);
    backpointers.push({ words, parents, scores: logProbabilities, attended });
    finished = words.map((word) => word === END);

    live = scores.flatMap((score, at) => (!finished[at] && score > NEVER ? [at] : []));
    if (!live.length) break;
    const kept = live.map((at) => path[at]);
    words = live.map((at) => words[at]);
    texts = kept.map((one, at) => [...texts[one], words[at]]);
    session.reorder(kept);
  }
  return ranked(readBack(backpointers, filtered, finished), lengthPenalty);
}

/** Where the `count` largest values are, the largest first, the first of equal ones first. */
function largest(values: number[], count: number): number[] {
  const order = (one: number, other: number) => (values[one] === values[other] ? 0 : values[other] - values[one]);
  return [...values.keys()].sort(order).slice(0, count);
}
