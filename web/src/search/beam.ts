/** Beam search over any `Session`; a beam of one is greedy search: `model/search/beam.py` for one photo.

P paths, the beam · P′ paths that are followed · N continuations · t words so far. */

import { END, NEVER, UNKNOWN, ranked, readBack, repeating, type Hypothesis, type Backpointers } from "./hypotheses.ts";
import type { Session } from "./walker.ts";

export interface BeamOptions {
  beam: number;
  maxLength: number;
  lengthPenalty: number;
  allowRepetitions: boolean;
}

/** The `beam` best captions that a beam search finds, best first, and the backpointers that has what the decoder saw.

Scores are sums of log-probabilities, never renormalized over the words allowed. A greedy search never begins with the
end token. A finished path is frozen: it keeps its score, and its location until better paths push it out. The search ends
when every path is finished, or after `maxLength` words, the end token counted. Without `allowRepetitions` no path says
a word twice in a row, or the same three words in a row twice. */
export async function search(session: Session, options: BeamOptions): Promise<[Hypothesis[], Backpointers[]]> {
  const { beam, maxLength, lengthPenalty, allowRepetitions } = options;
  let scores: number[] = Array(beam).fill(NEVER);
  scores[0] = 0; // all paths are equal at first: only one may have children
  let finished: boolean[] = Array(beam).fill(false);
  let live = [0]; // paths that are followed (P′,)
  let words = [session.vocabularySize];
  let said: number[][] = [[]]; // by each followed path so far (P′, t)
  const backpointers: Backpointers[] = [];

  for (let time = 0; time < maxLength; time++) {
    const step = await session.step(words);
    const running = live.map((path) => (finished[path] ? NEVER : scores[path])); // (P′,)
    const forbidden = beam === 1 && time === 0 ? [UNKNOWN, END] : [UNKNOWN];
    const again = time > 0 && !allowRepetitions ? said.map(repeating) : null;
    const next = await session.best(running, beam, forbidden, banned);
    // a finished path has one child: itself, at no cost
    const children = [...scores.map((score, path) => (finished[path] ? score : NEVER)), ...next.scores]; // (P + N,)
    const chosen = largest(children, beam);
    const frozen = chosen.map((child) => child < beam);
    const path = chosen.map((child, at) => (frozen[at] ? Math.min(child, live.length - 1) : next.paths[child - beam]));
    const parents = chosen.map((child, at) => (frozen[at] ? child : live[path[at]]));
    words = chosen.map((child, at) => (frozen[at] ? END : next.words[child - beam]));
    backpointers.push({ ...step, words, parents, rows: path.map((one) => step.rows[one]) });
    scores = chosen.map((child) => children[child]);
    finished = words.map((word) => word === END);

    live = scores.flatMap((score, at) => (!finished[at] && score > NEVER ? [at] : []));
    if (!live.length) break;
    const followed = live.map((at) => path[at]);
    words = live.map((at) => words[at]);
    said = followed.map((one, at) => [...said[one], words[at]]);
    session.reorder(followed);
  }
  return [ranked(readBack(backpointers, scores, finished), lengthPenalty), backpointers];
}

/** Where the `count` largest values are, the largest first, the first of equal ones first. */
function largest(values: number[], count: number): number[] {
  const order = (one: number, other: number) => (values[one] === values[other] ? 0 : values[other] - values[one]);
  return [...values.keys()].sort(order).slice(0, count);
}
