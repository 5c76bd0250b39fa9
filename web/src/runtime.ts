/** ONNX Runtime in this browser: which of its builds, how many threads, and sessions of the graphs. */

import type * as Ort from "onnxruntime-web";
import builds, { type Build } from "virtual:runtime";
import type { Fetch } from "./download.ts";
import type { Arrays } from "./safetensors.ts";

const MOST_THREADS = 8; // more bring little, and small cores slow the large ones down
const WEIGHTS = "weights"; // where the graphs expect their weights, see `PackedWeights` in backends/onnx/graph.py

/** Whether this browser can use a GPU in the way that ONNX Runtime's build for WebGPU needs. */
async function hasGpu(): Promise<boolean> {
  const { gpu } = navigator as { gpu?: { requestAdapter(): Promise<object | null> } };
  if (!gpu || !("Suspending" in WebAssembly)) return false;
  return gpu.requestAdapter().then((adapter) => adapter !== null, () => false);
}

let picked: Promise<Build> | null = null;

/** Use no GPU from now on, whatever this browser has. */
export function forgoGpu(): void {
  picked = Promise.resolve(builds.plain);
}

/** The build of ONNX Runtime for this browser: the one for WebGPU where there is a GPU. */
export function pickBuild(): Promise<Build> {
  picked ??= hasGpu().then((there) => (there ? builds.gpu : builds.plain));
  return picked;
}

/** ONNX Runtime, loaded. */
export class Runtime {
  private before: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly ort: typeof Ort,
    readonly gpu: boolean,
    readonly threads: number,
  ) {}

  /** Load a build; `base` is the page's address. */
  static async load(build: Build, base: string, fetched: Fetch): Promise<Runtime> {
    const gpu = build === builds.gpu;
    const ort: typeof Ort = gpu ? await import("onnxruntime-web/jspi") : await import("onnxruntime-web/wasm");
    const threads = self.crossOriginIsolated ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
    ort.env.logLevel = "error";
    ort.env.wasm.numThreads = threads;
    ort.env.wasm.wasmPaths = { mjs: new URL(build.script, base).href };
    ort.env.wasm.wasmBinary = await fetched(build.binary);
    return new Runtime(ort, gpu, threads);
  }

  /** The session of a graph that `web/models.py` wrote.

  Sessions are made one after the other, because ONNX Runtime knows only one file of a name at a time. */
  session(arrays: Arrays, name: string, provider: "wasm" | "webgpu" = "wasm"): Promise<Ort.InferenceSession> {
    const [graph, weights] = [`${name}.onnx`, WEIGHTS].map((part) => arrays.get(part)! as Uint8Array);
    const made = this.before.then(() => this.ort.InferenceSession.create(graph, {
      executionProviders: [provider],
      externalData: [{ path: WEIGHTS, data: weights }],
    }));
    this.before = made.catch(() => {});
    return made;
  }

  /** A tensor of float32. */
  tensor(data: Float32Array, shape: number[]): Ort.Tensor {
    return new this.ort.Tensor("float32", data, shape);
  }

  /** A tensor of whole numbers. */
  whole(data: number[], shape: number[]): Ort.Tensor {
    return new this.ort.Tensor("int64", BigInt64Array.from(data, BigInt), shape);
  }

  /** Rows of one length as a tensor (1, rows, length). */
  stacked(rows: Float32Array[]): Ort.Tensor {
    const size = rows[0].length;
    const data = new Float32Array(rows.length * size);
    rows.forEach((row, at) => data.set(row, at * size));
    return this.tensor(data, [1, rows.length, size]);
  }
}
