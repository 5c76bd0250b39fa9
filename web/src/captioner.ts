/** Models ready to caption photos: `captioner.py`.

T words, end token excluded · L locations in a grid of rows and columns. */

import { fetching, type Fetch, type Progress, type Stored } from "./download.ts";
import { OnnxEncoder } from "./encoder.ts";
import { answer, blurred, hidden, ofRuns, outline, pictureOf, withControls, type Variant } from "./hide.ts";
import { pixels, visibleBox, type Preprocessing } from "./pixels.ts";
import { PhotoWords, type ClassWords } from "./rerank/class-words.ts";
import { Confidence } from "./rerank/confidence.ts";
import { VisualNgrams } from "./rerank/visual-ngrams.ts";
import { Runtime, pickBuild } from "./runtime.ts";
import { readArrays, type Arrays } from "./safetensors.ts";
import { search, type GenerationConfig } from "./search/beam.ts";
import { secondUse, wordFilters, type Unfinished } from "./search/filters.ts";
import { ranked, type Hypothesis } from "./search/hypotheses.ts";
import { OnnxDecoder, OnnxSession } from "./search/onnx.ts";
import { logProbabilities } from "./search/session.ts";

/** A model as `models.json` describes it. */
export interface Model {
  name: string;
  attention: string;
  grid: [rows: number, columns: number];
  offset: [down: number, right: number]; // from a location's cell to where it looks, in cells
  preprocessing: Preprocessing;
  generation: GenerationConfig;
  words: string[]; // of the vocabulary, by id, as they are written
  capital: boolean; // whether a caption begins with a capital letter
  tokenizer: string | null; // null for the English one
  between: string; // what stands between two words
  card: string;
  forms: Record<number, number[]>; // of each noun and color
  class_words: ClassWords | null;
  unfinished: Unfinished | null; // of an English vocabulary
  singular: Record<string, string>; // of each noun in the plural
  related: Record<string, string[]>; // by WordNet, of each noun in the singular
  files: { encoder: string; decoder: string; reranker: string | null };
}

/** What `web/models.py` wrote: the models, and their files by name. */
export interface Catalogue {
  format: number; // of these fields
  models: Model[];
  files: Record<string, { bytes: number; sha256: string }>;
}

/** A caption as `Caption.to_dict` of Python gives it, and how it was made. */
export interface Caption {
  source: string;
  caption: string;
  words: string[];
  log_probability: number;
  word_log_probabilities: number[];
  complete: boolean;
  attention: number[][][] | null;
  evidence: number[][][] | null; // in nats
  gate: number[] | null;
  locations: [number, number][] | null;
  rerank_score: number | null;
  confidence: number | null;
  word_confidence: (number | null)[] | null;
  reaches_min_confidence: null;
  warning: string | null;
  alternatives: { caption: string; log_probability: number }[];
  size: [number, number];
  visible_box: number[];
  offset: [number, number];
  settings: { model: string; attention_mode: string; [name: string]: unknown };
}

const EVIDENCE = "gradient at the mean context"; // the name of its definition, as in captioner.py

/** A photo that this browser cannot read. */
export class Unreadable extends Error {}

/** The files that models need, with that build of ONNX Runtime. */
export async function filesOf(catalogue: Catalogue, names: string[]): Promise<Stored[]> {
  const chosen = catalogue.models.filter((model) => names.includes(model.name));
  const found = new Set(chosen.flatMap(({ files }) => Object.values(files).filter((file) => file !== null)));
  return [(await pickBuild()).binary, ...[...found].map((name) => storedFile(catalogue, name))];
}

function storedFile(catalogue: Catalogue, name: string): Stored {
  return { path: `models/${name}`, ...catalogue.files[name] };
}

interface Loaded {
  model: Model;
  encoder: OnnxEncoder;
  decoder: OnnxDecoder;
  reranker: VisualNgrams | null;
  confidence: Confidence | null;
}

/** The models of a page; each is loaded when it is first used, and a part that models share once. */
export class Captioners {
  private readonly loaded = new Map<string, Loaded>();
  private readonly parts = new Map<string, Promise<unknown>>(); // what was made of each file, by its path

  constructor(
    private readonly catalogue: Catalogue,
    private readonly base: string,
    private readonly progress: Progress,
  ) {}

  /** Load models; what could not be loaded is tried again the next time.

  Says whether photos are encoded on a GPU, and by how many threads the rest is computed. */
  async load(names: string[]): Promise<{ gpu: boolean; threads: number }> {
    const files = (await filesOf(this.catalogue, names)).filter(({ path }) => !this.parts.has(path));
    const fetched = fetching(files, this.base, this.progress);
    const build = await pickBuild();
    const runtime = await this.once(build.binary, () => Runtime.load(build, this.base, fetched));
    for (const model of this.catalogue.models)
      if (names.includes(model.name)) this.loaded.set(model.name, await this.made(model, runtime, fetched));
    return { gpu: [...this.loaded.values()].some(({ encoder }) => encoder.onGpu), threads: runtime.threads };
  }

  private async made(model: Model, runtime: Runtime, fetched: Fetch): Promise<Loaded> {
    const part = <Part>(name: string, make: (arrays: Arrays) => Promise<Part>) => {
      const file = storedFile(this.catalogue, name);
      return this.once(file, async () => make(readArrays(await fetched(file))));
    };
    const { encoder: encoding, decoder: decoding, reranker: reranking } = model.files;
    const [encoder, reranker, { decoder, confidence }] = await Promise.all([
      part(encoding, (arrays) => OnnxEncoder.load(runtime, arrays, model.preprocessing.size)),
      reranking === null ? null : part(reranking, async (arrays) =>
        new VisualNgrams(arrays, await runtime.session(arrays, "expected"))),
      part(decoding, async (arrays) => ({
        decoder: await OnnxDecoder.load(runtime, arrays, model.words.length, model.attention !== "uniform"),
        confidence: arrays.has("confidence.words") ? new Confidence(arrays) : null,
      })),
    ]);
    return { model, encoder, decoder, reranker, confidence };
  }

  /** What is made of a file, once; a failure is forgotten, so that the next call tries again. */
  private once<Part>(file: Stored, make: () => Promise<Part>): Promise<Part> {
    const part = (this.parts.get(file.path) as Promise<Part> | undefined) ?? make();
    this.parts.set(file.path, part);
    part.catch(() => this.parts.delete(file.path));
    return part;
  }

  /** The captions of a photo by models that are loaded, with a beam size or each model's own; and how long they took. */
  async caption(
    file: Blob, source: string, names: string[], beamSize: number | null,
  ): Promise<[captions: Caption[], seconds: number]> {
    const started = performance.now();
    const photo = await decoded(file);
    const captions = [];
    try {
      const annotated = new Map<string, Awaited<ReturnType<OnnxEncoder["annotate"]>>>();
      for (const name of names) {
        const loaded = this.loaded.get(name)!;
        const { preprocessing, files } = loaded.model;
        const key = JSON.stringify([files.encoder, preprocessing]);
        if (!annotated.has(key)) annotated.set(key, await loaded.encoder.annotate(pixels(photo, preprocessing)));
        const [caption] = await this.searched(loaded, annotated.get(key)!, source, [photo.width, photo.height], beamSize);
        captions.push(caption);
      }
    } finally {
      photo.close();
    }
    return [captions, (performance.now() - started) / 1000];
  }

  /** What came out when the place of a caption's word was hidden, or a mask of runs, as `Captioner.hide` of Python. */
  async hide(file: Blob, caption: Caption, step: number | null, mask: number[] | null): Promise<object> {
    const loaded = this.loaded.get(caption.settings.model)!;
    const { model, encoder, decoder } = loaded;
    const { size: side, mean, std } = model.preprocessing;
    const cells = mask ? ofRuns(mask) : outline(caption.evidence![step!], model.offset);
    if (!cells) throw new Error(`the photo has no evidence for "${caption.words[step!]}": choose another word`);
    const photo = await decoded(file);
    const square = pixels(photo, model.preprocessing);
    photo.close();
    const masks = withControls(cells);
    const cover = blurred(square, side);
    const variants: Variant[] = [];
    let ids: number[] = [];
    for (const part of [null, ...masks]) {
      const annotations = await encoder.annotate(part ? hidden(square, cover, part, side) : square);
      const beam = caption.settings.beam_size as number;
      const [found, known] = await this.searched(loaded, annotations, caption.source, caption.size, beam, false);
      if (!part) ids = known;
      const plain = (word: string) => model.singular[word.toLowerCase()] ?? word.toLowerCase();
      const words = found.words.map((word, at) => ({ shown: plain(word), known: plain(model.words[known[at]]) }));
      const forced = step === null ? []
        : await logProbabilities(ids.slice(0, step + 1), await OnnxSession.start(decoder, annotations));
      variants.push({ caption: found.caption, words, log_p: forced.at(-1) ?? null });
    }
    const word = step === null ? null : caption.words[step];
    return answer(variants, step, word, masks, model.related, await pictureOf(cover, side, mean, std), !mask);
  }

  private async searched(
    { model, encoder, decoder, reranker, confidence }: Loaded,
    annotations: Parameters<typeof OnnxSession.start>[1],
    source: string,
    size: [number, number],
    beamSize: number | null,
    evident = true,
  ): Promise<[Caption, ids: number[]]> {
    const [, columns] = model.grid;
    const generation = { ...model.generation, ...(beamSize !== null && { beam_size: beamSize }) };
    const session = await OnnxSession.start(decoder, annotations);
    const { repetition_cost: cost, class_weight: weight } = generation;
    const seen = model.class_words ? new PhotoWords(model.class_words, await encoder.classes(annotations)) : null;
    const named = weight ? seen : null;
    const filters = wordFilters(generation, model.unfinished);
    if (cost) filters.push(secondUse(model.forms, cost));
    if (named) filters.push(named.filter(weight));
    let found = await search(session, generation, filters);
    const expected = reranker && await reranker.expected(annotations);
    if (expected) {
      const scored = reranker.addScores(expected, found, generation.rare_word_exponent);
      found = ranked(scored, generation.length_penalty, generation.rerank_weight);
    }
    const best = found[0];
    const blind = confidence && await OnnxSession.blind(decoder, annotations);
    const nameAt = named?.place(best.words) ?? -1;
    const tooFew = Math.min(...size) < 24; // pixels: each word is then to be checked, as in Python
    const trusted = await confidence?.of(best, found, reranker, expected, seen, blind!, nameAt) ?? null;
    const confident = trusted && trusted.map((value) => value && (tooFew ? value / 2 : value));
    const judged = (confident ?? []).filter((value) => value !== null);
    const words = ({ words: ids }: Hypothesis) => {
      const known = ids.map((id) => model.words[id]);
      const [first] = known;
      if (model.capital && first && first === first.toLowerCase()) known[0] = first[0].toUpperCase() + first.slice(1);
      return named?.shown(ids, known) ?? known;
    };
    const text = (caption: Hypothesis) => words(caption).join(model.between).trim();
    const { attended } = best;
    const evidence = evident && decoder.attends && best.words.length ? await decoder.evidence(annotations, best) : null;
    const caption: Caption = {
      source,
      caption: text(best),
      words: words(best),
      log_probability: best.logProbability,
      word_log_probabilities: best.wordLogProbabilities.map(rounded),
      complete: best.ended,
      attention: whole(attended.map(({ alpha }) => alpha && map(alpha, columns))),
      evidence: evidence && evidence.map((row) => map(row, columns)),
      gate: whole(attended.map(({ beta }) => beta && rounded(beta))),
      locations: whole(attended.map(({ location: at }) => (at === null ? null : [Math.floor(at / columns), at % columns]))),
      rerank_score: best.rerankScore ?? null,
      confidence: judged.length ? rounded(judged.reduce((sum, value) => sum + value, 0) / judged.length) : null,
      word_confidence: confident && confident.map((value) => value === null ? null : rounded(value)),
      reaches_min_confidence: null,
      warning: tooFew ? `${size.join(" × ")} pixels are too few to see what is there: the caption is a guess` : null,
      alternatives: found.slice(1).map((other) => ({ caption: text(other), log_probability: other.logProbability })),
      size,
      visible_box: visibleBox(model.preprocessing, ...size),
      offset: model.offset,
      settings: {
        model: model.name, attention_mode: generation.attention_mode,
        ...(model.tokenizer && { tokenizer: model.tokenizer }),
        beam_size: generation.beam_size, length_penalty: generation.length_penalty,
        ...(evidence && { evidence: EVIDENCE }), ...(cost && { repetition_cost: cost }),
        ...(weight && { class_weight: weight }),
        ...(reranker && { rerank_weight: generation.rerank_weight, rare_word_exponent: generation.rare_word_exponent }),
      },
    };
    return [caption, best.words];
  }
}

/** A photo's file, upright and converted to sRGB by its color profile, as Python reads it. */
async function decoded(file: Blob): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "default" });
  } catch {
    throw new Unreadable("this is not a photo that this browser can read: give a JPEG, PNG or WebP file");
  }
}

/** Values of all words; null where a model has none. */
function whole<Value>(values: (Value | null)[]): Value[] | null {
  return values.includes(null) ? null : values as Value[];
}

/** A row of locations as a map (rows, columns). */
function map(alpha: Float32Array, columns: number): number[][] {
  return Array.from({ length: alpha.length / columns }, (_, row) =>
    Array.from(alpha.subarray(row * columns, (row + 1) * columns), rounded));
}

const rounded = (value: number) => Math.round(value * 1e6) / 1e6;
