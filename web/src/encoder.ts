/** The encoder, by an ONNX graph: `backends/onnx/encoder.py`.

L locations · D annotation size · V classes. */

import type { InferenceSession, Tensor } from "onnxruntime-web";
import type { Runtime } from "./runtime.ts";
import type { Arrays } from "./safetensors.ts";

const TOLERANCE = 1e-3; // of what a GPU computes, as a share of the largest value
const PATIENCE = 20_000; // milliseconds for the first computation on a GPU, which also compiles its programs

/** A GPU that does not answer in time. ONNX Runtime waits for it for ever, so a new worker is needed. */
export class SlowGpu extends Error {}

/** What makes annotations of pixels, on the GPU where its results are right. */
export class OnnxEncoder {
  private constructor(
    private readonly runtime: Runtime,
    private readonly session: InferenceSession,
    private readonly size: number,
    private readonly classifier: InferenceSession | null,
    readonly onGpu: boolean,
  ) {}

  static async load(runtime: Runtime, arrays: Arrays, size: number): Promise<OnnxEncoder> {
    const classifier = arrays.has("classes.onnx") ? await runtime.session(arrays, "classes") : null;
    if (runtime.gpu) {
      try {
        const session = await runtime.session(arrays, "encoder", "webgpu");
        const encoder = new OnnxEncoder(runtime, session, size, classifier, true);
        const error = await inTime(encoder.error(arrays.get("probe")! as Float32Array));
        if (error <= TOLERANCE) return encoder;
        console.warn(`WebGPU is not used: its annotations are off by ${error}`);
        await session.release();
      } catch (error) {
        if (error instanceof SlowGpu) throw error;
        console.warn("WebGPU is not used:", error);
      }
    }
    return new OnnxEncoder(runtime, await runtime.session(arrays, "encoder"), size, classifier, false);
  }

  /** The annotations (1, L, D) of normalized pixels (3, size, size). */
  async annotate(pixels: Float32Array): Promise<Tensor> {
    const { annotations } = await this.session.run({
      pixels: this.runtime.tensor(pixels, [1, 3, this.size, this.size]),
    });
    return annotations;
  }

  /** The probability of each class (V,), of annotations (1, L, D). */
  async classes(annotations: Tensor): Promise<Float32Array> {
    return (await this.classifier!.run({ annotations })).p.data as Float32Array;
  }

  /** How far the mean annotation of the probe is from Python's, as a share of its largest value. */
  private async error(expected: Float32Array): Promise<number> {
    const { data, dims } = await this.annotate(probe(this.size));
    const mean = new Float32Array(expected.length);
    (data as Float32Array).forEach((value, at) => { mean[at % expected.length] += value / dims[1]; });
    const largest = Math.max(...expected.map(Math.abs));
    const off = Math.max(...mean.map((value, at) => Math.abs(value - expected[at])));
    return Number.isFinite(off) ? off / largest : Infinity;
  }
}

function inTime<Value>(value: Promise<Value>): Promise<Value> {
  return Promise.race([value, new Promise<never>((_, fail) => {
    setTimeout(() => fail(new SlowGpu("the GPU does not answer")), PATIENCE);
  })]);
}

/** The pixels of a coarse pattern, as `web/models.py` has them. */
function probe(size: number): Float32Array {
  return Float32Array.from({ length: 3 * size * size }, (_, at) => {
    const [channel, row, column] = [Math.floor(at / size / size), Math.floor(at / size) % size, at % size];
    return ((Math.floor(row / 16) * 5 + Math.floor(column / 16) * 3 + channel * 7) % 11) / 4 - 1;
  });
}
