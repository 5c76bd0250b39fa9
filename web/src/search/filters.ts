/** What a search adds to the log-probabilities of words: `search/filters.py` for one photo.

P′ running paths · t words so far · N words that are named. */

export const END = 0;
export const UNKNOWN = 1;
export const NEVER = -Infinity;
const LAST_RESORT = -1000; // nats: taken only where every other word is forbidden

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

/** Ids of the words after which no English caption ends; of determiners; of colors; and of what stands among colors. */
export type Unfinished = Record<"words" | "determiners" | "colors" | "among_colors", number[]>;

/** The filters that have no setting of their own: a new one is added here. */
export function wordFilters(
  generation: { beam_size: number; allow_repetitions: boolean; max_length: number }, unfinished: Unfinished | null = null,
): Filter[] {
  const filters: Filter[] = [() => never([UNKNOWN])];
  if (generation.beam_size === 1) filters.push((path) => (path.length ? null : never([END])));
  if (!generation.allow_repetitions) filters.push((path) => never(repeating(path)));
  if (unfinished) filters.push(completeEnd(unfinished, generation.max_length));
  return filters;
}

/** No caption ends in the air, and the last word that there is room for does not either: `CompleteEnd` of Python. */
function completeEnd(unfinished: Unfinished, most: number): Filter {
  const [words, determiners, colors, amongColors] =
    [unfinished.words, unfinished.determiners, unfinished.colors, unfinished.among_colors].map((ids) => new Set(ids));
  const last = [...words, ...colors];
  return (path) => {
    const word = path.at(-1)!;
    const before = path.findLast((id) => !amongColors.has(id))!;
    const inTheAir = words.has(word) || (colors.has(word) && determiners.has(before));
    const ids = [END, ...(path.length < most - 1 ? [] : last)];
    return { ids, weights: ids.map((id) => (id === END && !inTheAir ? 0 : LAST_RESORT)) };
  };
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
