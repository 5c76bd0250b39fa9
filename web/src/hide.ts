/** What if it were hidden? Where, how, and what became of a word: the package's `hide/` for one photo.

C cells along a side of what the encoder sees · S side of its square of pixels. */

import { dataUri } from "./data-uri.ts";

const CELLS = 56; // C, in which outlines are drawn
const SHARE = 0.2; // of what the encoder sees, that an outline hides
const PIECES = 2; // of an outline at most
const PLACES = 5; // to which an outline is moved
const MOVES = 14; // places along a side to which it can be moved
const CLOSE = 0.05; // of a mask: overlaps that differ by less count as equal
const SEED = 2654435761; // orders moves of equal overlap
const SIGMA = 20 / 224; // of the Gaussian by which a map is smoothed, in sides
const BLUR = 1 / 8; // of the Gaussian that hides, in sides
const USUALLY = "Of 1,781 nouns in everyday models’ captions, 61 % disappeared when hidden here, 20 % when hidden elsewhere.";
const SHOWN = 32; // pixels of a side of the picture of what hides

type Cells = Uint8Array; // (C × C), 1 where it is hidden

/** A word as a caption shows it and the vocabulary's word in its place; nouns in one form. */
export interface Word {
  shown: string;
  known: string;
}

export interface Variant {
  caption: string;
  words: Word[];
  log_p: number | null; // of the word, given the same words before it, in nats
}

/** The part of what the encoder sees with most of a map (rows × columns); null where no value is positive. */
export function outline(map: number[][], [down, right]: [number, number]): Cells | null {
  const positive = map.map((row) => row.map((value) => Math.max(0, value)));
  if (!positive.flat().some((value) => value > 0)) return null;
  const [rows, columns] = [spread(map.length, down), spread(map[0].length, right)];
  const light = weighed(positive.flat(), rows, columns);
  const order = [...light.keys()].sort((one, other) => light[other] - light[one] || one - other);
  const wanted = Math.round(SHARE * light.length);
  let [low, high] = [wanted, light.length]; // how many cells are lighter than the threshold
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sum(largestPieces(light, order.slice(0, middle))) < wanted) low = middle + 1;
    else high = middle;
  }
  return largestPieces(light, order.slice(0, low));
}

/** A map with each of its sides weighed: down · map · acrossᵀ, flat. */
function weighed(map: ArrayLike<number>, down: number[][], across: number[][]): number[] {
  const columns = across[0].length;
  const lowered = down.map((weights) => Array.from({ length: columns }, (_, column) =>
    weights.reduce((sum, weight, row) => sum + weight * map[row * columns + column], 0)));
  return lowered.flatMap((row) => across.map((weights) =>
    weights.reduce((sum, weight, column) => sum + weight * row[column], 0)));
}

/** Weights that sum to 1. */
function normalized(weights: number[]): number[] {
  const total = weights.reduce((all, weight) => all + weight, 0);
  return weights.map((weight) => weight / total);
}

/** How much of each location a cell shows along one side (C × locations). */
function spread(locations: number, offset: number): number[][] {
  const edge = (number: number) => (number && number < locations ? number + offset : number) / locations;
  return Array.from({ length: CELLS }, (_, cell) => {
    const at = (cell + 0.5) / CELLS; // beyond its borders the map is continued by its mirror image
    return normalized(Array.from({ length: locations }, (_, location) => [-at, at, 2 - at].reduce((weight, mirrored) =>
      weight + normal((edge(location + 1) - mirrored) / SIGMA) - normal((edge(location) - mirrored) / SIGMA), 0)));
  });
}

/** The standard normal distribution below z, to 1e-7 (Abramowitz and Stegun 7.1.26). */
function normal(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const series = 0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)));
  const tail = 0.5 * t * series * Math.exp(-x * x);
  return z > 0 ? 1 - tail : tail;
}

/** The connected pieces with most light, of some cells of a map. */
function largestPieces(light: number[], chosen: number[]): Cells {
  const waiting = new Set(chosen);
  const pieces: [light: number, cells: number[]][] = [];
  for (const start of chosen) {
    if (!waiting.delete(start)) continue;
    const piece = [start];
    for (const cell of piece) { // which grows meanwhile
      const x = cell % CELLS;
      for (const [next, inside] of [[cell - 1, x > 0], [cell + 1, x < CELLS - 1], [cell - CELLS, true], [cell + CELLS, true]] as const)
        if (inside && waiting.delete(next)) piece.push(next);
    }
    pieces.push([piece.reduce((all, cell) => all + light[cell], 0), piece]);
  }
  const found = new Uint8Array(light.length);
  for (const [, piece] of pieces.sort((one, other) => other[0] - one[0]).slice(0, PIECES)) piece.forEach((cell) => { found[cell] = 1; });
  return found;
}

const sum = (cells: Cells) => cells.reduce((all, cell) => all + cell, 0);

/** The part, then the part moved to where it overlaps itself least; what leaves on one side comes back on the other. */
export function withControls(cells: Cells): Cells[] {
  const moved = (number: number) => {
    const [down, right] = [Math.floor(number / MOVES), number % MOVES].map((steps) => (steps * CELLS) / MOVES);
    return cells.map((_, cell) =>
      cells[((Math.floor(cell / CELLS) - down + CELLS) % CELLS) * CELLS + ((cell % CELLS) - right + CELLS) % CELLS]);
  };
  const ranked = Array.from({ length: MOVES * MOVES - 1 }, (_, at) => {
    const overlap = moved(at + 1).reduce((all, cell, where) => all + (cell & cells[where]), 0) / sum(cells);
    return { number: at + 1, overlap: Math.round(overlap / CLOSE), order: ((at + 1) * SEED) % 2 ** 32 };
  }).sort((one, other) => one.overlap - other.overlap || one.order - other.order);
  return [cells, ...ranked.slice(0, PLACES).map(({ number }) => moved(number))];
}

/** Cells as lengths of runs, visible first, and back. */
export function runs(cells: Cells): number[] {
  const found = [0];
  cells.forEach((cell) => {
    if (cell !== (found.length - 1) % 2) found.push(0);
    found[found.length - 1]++;
  });
  return found;
}

export const ofRuns = (lengths: number[]): Cells => Uint8Array.from(lengths.flatMap((length, turn) => Array(length).fill(turn % 2)));

/** The square of pixels (3 × S × S) without detail. */
export function blurred(pixels: Float32Array, side: number): Float32Array {
  const weights = Array.from({ length: side }, (_, at) => normalized(Array.from({ length: side }, (_, other) =>
    Math.exp(-(((at - other) / (BLUR * side)) ** 2) / 2))));
  const channel = (number: number) => pixels.subarray(number * side * side, (number + 1) * side * side);
  return Float32Array.from([0, 1, 2].flatMap((number) => weighed(channel(number), weights, weights)));
}

/** The square with the cover where cells are hidden. */
export function hidden(pixels: Float32Array, cover: Float32Array, cells: Cells, side: number): Float32Array {
  const at = Array.from({ length: side }, (_, pixel) => Math.min(CELLS - 1, Math.max(0, ((pixel + 0.5) * CELLS) / side - 0.5)));
  const inside = Uint8Array.from({ length: side * side }, (_, pixel) => {
    const [y, x] = [at[Math.floor(pixel / side)], at[pixel % side]], [top, left] = [Math.floor(y), Math.floor(x)];
    const cell = (row: number, column: number) => cells[Math.min(CELLS - 1, row) * CELLS + Math.min(CELLS - 1, column)];
    const upper = cell(top, left) * (1 - x + left) + cell(top, left + 1) * (x - left);
    const lower = cell(top + 1, left) * (1 - x + left) + cell(top + 1, left + 1) * (x - left);
    return Number(upper * (1 - y + top) + lower * (y - top) >= 0.5);
  });
  return pixels.map((value, pixel) => (inside[pixel % (side * side)] ? cover[pixel] : value));
}

/** A small picture of the cover (3 × S × S), normalized, as a data: URL. */
export async function pictureOf(cover: Float32Array, side: number, mean: number[], std: number[]): Promise<string> {
  const image = new ImageData(SHOWN, SHOWN);
  for (let pixel = 0; pixel < SHOWN * SHOWN; pixel++) {
    const [y, x] = [Math.floor(pixel / SHOWN), pixel % SHOWN].map((place) => Math.floor(((place + 0.5) * side) / SHOWN));
    const colors = mean.map((center, channel) => 255 * (cover[(channel * side + y) * side + x] * std[channel] + center));
    image.data.set([...colors, 255], 4 * pixel);
  }
  const canvas = new OffscreenCanvas(SHOWN, SHOWN);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return dataUri(await canvas.convertToBlob());
}

/** The answer as `Hidden.to_dict` gives it, of the whole photo's caption, then those of the place and the controls. */
export function answer(
  [before, here, ...elsewhere]: Variant[], step: number | null, word: string | null, masks: Cells[],
  related: Record<string, string[]>, cover: string, lit = true, // whether the place is what the word lit
): object {
  const [place, ...others] = [here, ...elsewhere].map((variant, number) => ({
    caption: variant.caption, mask: runs(masks[number]), log_p: variant.log_p,
    ...(step === null ? { verdict: null, renamed: null } : judge(before.words[step], before.words, variant.words, related)),
  }));
  const stayed = others.filter(({ verdict }) => verdict !== null && verdict !== "gone").length;
  return {
    word, step, log_p: before.log_p, grid: [CELLS, CELLS], cover, here: place, elsewhere: others,
    lines: word === null ? [`This place hidden: “${here.caption}”.`] : lines(word, before.log_p!, place, others.map(({ log_p: value }) => value!), stayed, lit),
  };
}

function judge(word: Word, before: Word[], after: Word[], related: Record<string, string[]>) {
  if (after.some(({ shown }) => shown === word.shown)) return { verdict: "stays", renamed: null };
  const there = new Set(before.map(({ shown }) => shown));
  const other = after.find(({ shown, known }) =>
    !there.has(shown) && (known === word.known || related[word.shown]?.includes(shown)));
  return other ? { verdict: "renamed", renamed: other.shown } : { verdict: "gone", renamed: null };
}

function lines(
  word: string, before: number, here: { caption: string; log_p: number | null; verdict: string | null; renamed: string | null },
  elsewhere: number[], stayed: number, lit: boolean,
): string[] {
  const usual = 2 * stayed > elsewhere.length;
  const name = here.verdict === "gone" ? "gone" : `renamed ${here.renamed} (related by WordNet)`;
  const outcome = here.verdict === "stays"
    ? `stays${!usual ? ": but other places matter to it" : lit ? ": the rest of the photo supports it too" : " without this place"}.`
    : `is ${name}${usual ? "" : ", as it mostly is whatever is hidden"}: “${here.caption}”.`;
  const [was, now, low, high] = [before, here.log_p!, Math.min(...elsewhere), Math.max(...elsewhere)].map((value) => Math.exp(value).toFixed(2));
  return [
    `${word} ${outcome} Hidden in ${elsewhere.length} other places, it stayed in ${stayed}.`,
    `Probability of ${word} after the same words: ${was} → ${now}; hidden elsewhere ${low} to ${high}.`,
    ...(lit ? [USUALLY] : []),
  ];
}
