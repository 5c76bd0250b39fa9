/** What a search adds to the log-probabilities of words: `search/filters.py` for one photo.

P′ running paths · t words so far · N words that are named. */

export const END = 0;
export const UNKNOWN = 1;
export const NEVER = -Infinity;

/** Words, and what is added to their log p as the next word of a path (N,) each. −∞ forbids a word. */
export interface Added {
  ids: number[];
  weights: number[];
}

/** Gets the words of a path (t,). A word may be named twice: its weights add up. */
export type Filter = (path: number[]) => Added | null;

/** What all filters add to a path. */
export function apply(filters: Filter[], path: number[]): Added {
  const found = filters.map((filter) => filter(path)).filter((added) => added !== null);
  return { ids: found.flatMap(({ ids }) => ids), weights: found.flatMap(({ weights }) => weights) };
}

/** What finite weights add to a word. */
export function addedTo(word: number, { ids, weights }: Added): number {
  return weights.reduce((sum, weight, at) => (ids[at] === word && weight > NEVER ? sum + weight : sum), 0);
}

const never = (ids: number[]): Added => ({ ids, weights: ids.map(() => NEVER) });

/** The filters of a search, by its configuration: a new one is added here. */
export function wordFilters(generation: { beam_size: number; allow_repetitions: boolean }): Filter[] {
  const filters: Filter[] = [() => never([UNKNOWN])];
  if (generation.beam_size === 1) filters.push((path) => (path.length ? null : never([END])));
  if (!generation.allow_repetitions) filters.push((path) => never(repeating(path)));
  return filters;
}

/** The words that would repeat a part of a path: its last word, and what followed its last two words before. */
function repeating(path: number[]): number[] {
  const [before, last] = [path.at(-2), path.at(-1)];
  return last === undefined ? [] : [last, ...path.slice(2).filter((_, at) => path[at] === before && path[at + 1] === last)];
}

/** Each further use of the same noun or color costs so many nats; `forms` has the ids of each one's forms. */
export function secondUse(forms: Record<number, number[]>, cost: number): Filter {
  return (path) => {
    const ids = path.flatMap((word) => forms[word] ?? []);
    return { ids, weights: ids.map(() => -cost) };
  };
}
