/** The paper's decoder as a `DecoderSession`, by ONNX graphs: `backends/onnx/session.py` for one photo.

P paths · Q histories, paths without their last word · L locations · n LSTM size · m word-embedding size · K vocabulary ·
S = 4n + m. */

import type { InferenceSession, Tensor } from "onnxruntime-web";
import type { Runtime } from "../runtime.ts";
import type { Arrays } from "../safetensors.ts";
import type { Added } from "./filters.ts";
import type { Hypothesis } from "./hypotheses.ts";
import { distinct, type Attended, type Continuations, type SessionStep, type DecoderSession } from "./session.ts";

const GRAPHS = ["start", "words", "attend", "advance", "best", "evidence"] as const;

/** A trained decoder: the graphs that `web/models.py` wrote. */
export class OnnxDecoder {
  private readonly byWord = new Map<number, Float32Array>(); // what each word adds, once it is known

  private constructor(
    readonly runtime: Runtime,
    readonly graphs: Record<(typeof GRAPHS)[number], InferenceSession>,
    readonly vocabularySize: number,
    readonly attends: boolean, // whether it has attention weights
  ) {}

  /** The decoder of a file's arrays. */
  static async load(runtime: Runtime, arrays: Arrays, vocabularySize: number, attends: boolean): Promise<OnnxDecoder> {
    const sessions = await Promise.all(GRAPHS.map(async (name) => [name, await runtime.session(arrays, name)]));
    return new OnnxDecoder(runtime, Object.fromEntries(sessions), vocabularySize, attends);
  }

  /** Each word's share of the gates and of the deep output, biases included: (1, P, S) for words (P,). */
  async ofWords(words: number[]): Promise<Tensor> {
    const unknown = [...new Set(words)].filter((word) => !this.byWord.has(word));
    if (unknown.length) {
      const { shares } = await this.graphs.words.run({ words: this.runtime.whole(unknown, [unknown.length]) });
      rowsOf(shares).forEach((row, at) => this.byWord.set(unknown[at], row));
    }
    return this.runtime.stacked(words.map((word) => this.byWord.get(word)!));
  }

  /** The evidence of a caption's words (T, L) in nats, of annotations (1, L, D), as in Python. */
  async evidence(annotations: Tensor, { words, attended }: Hypothesis): Promise<Float32Array[]> {
    const stacked = (row: (of: Attended) => Float32Array) => this.runtime.stacked(attended.map(row));
    const { evidence } = await this.graphs.evidence.run({
      annotations,
      alpha: stacked(({ alpha }) => alpha!),
      beta: stacked(({ beta }) => Float32Array.of(beta ?? 1)),
      hidden: stacked(({ hidden }) => hidden),
      memory: stacked(({ memory }) => memory),
      words: await this.ofWords([this.vocabularySize, ...words.slice(0, -1)]),
      said: this.runtime.whole(words, [1, words.length]),
    });
    return rowsOf(evidence);
  }
}

/** An `OnnxDecoder` with its state for the running paths. */
export class OnnxSession implements DecoderSession {
  readonly vocabularySize: number;
  private rows = [0]; // the history of each path (P′,)
  private deep: Tensor | null = null;

  private constructor(
    private readonly decoder: OnnxDecoder,
    private readonly weighed: Tensor,
    private readonly keys: Tensor,
    private hidden: Tensor,
    private memory: Tensor,
  ) {
    this.vocabularySize = decoder.vocabularySize;
  }

  /** Start at annotations (1, L, D). */
  static async start(decoder: OnnxDecoder, annotations: Tensor): Promise<OnnxSession> {
    const { weighed, keys, hidden, memory } = await decoder.graphs.start.run({ annotations });
    return new OnnxSession(decoder, weighed, keys, hidden, memory);
  }

  /** Start at zeros in the place of annotations (1, L, D). */
  static blind(decoder: OnnxDecoder, annotations: Tensor): Promise<OnnxSession> {
    const zeros = new Float32Array((annotations.data as Float32Array).length);
    return OnnxSession.start(decoder, decoder.runtime.tensor(zeros, [...annotations.dims]));
  }

  async step(words: number[]): Promise<SessionStep> {
    const { runtime, graphs, attends } = this.decoder;
    const [hidden, memory] = [rowsOf(this.hidden), rowsOf(this.memory)];
    const attended = await graphs.attend.run({ weighed: this.weighed, keys: this.keys, hidden: this.hidden });
    const advanced = await graphs.advance.run({
      shares: attended.shares,
      memory: this.memory,
      rows: runtime.whole(this.rows, [1, this.rows.length]),
      words: await this.decoder.ofWords(words),
    });
    this.hidden = advanced.new_hidden;
    this.memory = advanced.new_memory;
    this.deep = advanced.deep;
    const alphas = attends ? rowsOf(attended.alpha) : null;
    const betas = attended.beta ? floats(attended.beta) : null;
    const locations = attended.locations ? wholes(attended.locations) : null;
    return {
      rows: this.rows,
      attended: hidden.map((_, row) => ({
        alpha: alphas?.[row] ?? null,
        beta: betas?.[row] ?? null,
        location: locations?.[row] ?? null,
        hidden: hidden[row],
        memory: memory[row],
      })),
    };
  }

  reorder(paths: number[]): void {
    const [histories, rows] = distinct(paths);
    const chosen = (part: Tensor) => {
      const known = rowsOf(part);
      return this.decoder.runtime.stacked(histories.map((at) => known[at]));
    };
    this.rows = rows;
    this.hidden = chosen(this.hidden);
    this.memory = chosen(this.memory);
  }

  async best(before: number[], count: number, added: Added[]): Promise<Continuations> {
    const { runtime, graphs, vocabularySize } = this.decoder;
    const width = Math.max(...added.map(({ ids }) => ids.length));
    const filled = (rows: number[][]) => rows.flatMap((row) => Array.from({ length: width }, (_, at) => row[at] ?? 0));
    const { scores, chosen } = await graphs.best.run({
      deep: this.deep!,
      before: runtime.tensor(Float32Array.from(before), [1, before.length]),
      ids: runtime.whole(filled(added.map(({ ids }) => ids)), [1, before.length, width]),
      weights: runtime.tensor(Float32Array.from(filled(added.map(({ weights }) => weights))), [1, before.length, width]),
      count: runtime.whole([Math.min(count, before.length * vocabularySize)], [1]),
    });
    const numbers = wholes(chosen);
    return {
      scores: [...floats(scores)],
      paths: numbers.map((number) => Math.floor(number / vocabularySize)),
      words: numbers.map((number) => number % vocabularySize),
    };
  }
}

/** The rows of a tensor by its last axis. */
function rowsOf(tensor: Tensor): Float32Array[] {
  const size = tensor.dims.at(-1)!;
  return Array.from({ length: tensor.size / size }, (_, row) => floats(tensor).subarray(row * size, (row + 1) * size));
}

const floats = (tensor: Tensor) => tensor.data as Float32Array;
const wholes = (tensor: Tensor) => Array.from(tensor.data as BigInt64Array, Number);
