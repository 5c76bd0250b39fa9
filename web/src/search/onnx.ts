/** The paper's decoder as a `DecoderSession`, by ONNX graphs: `backends/onnx/session.py` for one photo.

P paths · Q histories, paths without their last word · L locations · n LSTM size · m word-embedding size · K vocabulary ·
S = 4n + m. */

import type { InferenceSession, Tensor } from "onnxruntime-web";
import type { Runtime } from "../runtime.ts";
import type { Added } from "./filters.ts";
import { distinct, type Continuations, type SessionStep, type DecoderSession } from "./session.ts";

/** A trained decoder: the graphs that `web/models.py` wrote. */
export class OnnxDecoder {
  private readonly byWord = new Map<number, Float32Array>(); // what each word adds, once it is known

  constructor(
    readonly runtime: Runtime,
    readonly graphs: Record<"start" | "words" | "attend" | "advance" | "best" | "evidence", InferenceSession>,
    readonly vocabularySize: number,
    readonly attends: boolean, // whether it has attention weights
  ) {}

  /** Each word's share of the gates and of the deep output, biases included: (1, P, S) for words (P,). */
  async ofWords(words: number[]): Promise<Tensor> {
    const unknown = [...new Set(words)].filter((word) => !this.byWord.has(word));
    if (unknown.length) {
      const { shares } = await this.graphs.words.run({ words: this.runtime.whole(unknown, [unknown.length]) });
      const size = shares.dims[1];
      unknown.forEach((word, at) => this.byWord.set(word, floats(shares).slice(at * size, (at + 1) * size)));
    }
    return this.runtime.stacked(words.map((word) => this.byWord.get(word)!));
  }

  /** The evidence of a caption's words (T × L, flat) in nats, of annotations (1, L, D), as in Python. */
  async evidence(annotations: Tensor, words: number[], caption: Said[]): Promise<Float32Array> {
    const stacked = (rows: Float32Array[]) => this.runtime.stacked(rows);
    const { evidence } = await this.graphs.evidence.run({
      annotations,
      alpha: stacked(caption.map(({ alpha }) => alpha)),
      beta: stacked(caption.map(({ beta }) => Float32Array.of(beta))),
      hidden: stacked(caption.map(({ hidden }) => hidden)),
      memory: stacked(caption.map(({ memory }) => memory)),
      words: await this.ofWords([this.vocabularySize, ...words.slice(0, -1)]),
      said: this.runtime.whole(words, [1, words.length]),
    });
    return floats(evidence);
  }
}

/** The step of one word of a caption. */
export interface Said {
  alpha: Float32Array; // (L,)
  beta: number; // 1 without a gate
  hidden: Float32Array; // h and c before the step (n,)
  memory: Float32Array;
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
    const [hidden, memory] = [floats(this.hidden), floats(this.memory)];
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
    return {
      rows: this.rows,
      alpha: attends ? floats(attended.alpha) : null,
      beta: attended.beta ? floats(attended.beta) : null,
      locations: attended.locations ? wholes(attended.locations) : null,
      hidden,
      memory,
    };
  }

  reorder(paths: number[]): void {
    const [histories, rows] = distinct(paths);
    const size = this.hidden.dims[2];
    const taken = (part: Tensor) =>
      this.decoder.runtime.stacked(histories.map((at) => floats(part).subarray(at * size, (at + 1) * size)));
    this.rows = rows;
    this.hidden = taken(this.hidden);
    this.memory = taken(this.memory);
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

const floats = (tensor: Tensor) => tensor.data as Float32Array;
const wholes = (tensor: Tensor) => Array.from(tensor.data as BigInt64Array, Number);
