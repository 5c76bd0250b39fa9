/** Arrays of a safetensors file: a length, a header in JSON, and the arrays' bytes. */

export type Numbers = Float32Array | Int32Array | Int8Array | Uint8Array;
export type Arrays = Map<string, { data: Numbers; shape: number[] }>;

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/** The arrays of a file's content; those of float16 become float32, and those of int64 int32. */
export function readArrays(content: ArrayBuffer): Arrays {
  const length = Number(new DataView(content).getBigUint64(0, true));
  const header: Record<string, Entry> = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 8, length)));
  const found: Arrays = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [start, end] = entry.data_offsets;
    const bytes = new Uint8Array(content, 8 + length + start, end - start);
    found.set(name, { data: numbers(entry.dtype, bytes), shape: entry.shape });
  }
  return found;
}

function numbers(dtype: string, bytes: Uint8Array): Numbers {
  if (dtype === "U8") return bytes;
  const aligned = bytes.slice().buffer;
  if (dtype === "I8") return new Int8Array(aligned);
  if (dtype === "I64") return Int32Array.from(new BigInt64Array(aligned), Number);
  if (dtype === "I32") return new Int32Array(aligned);
  if (dtype === "F32") return new Float32Array(aligned);
  if (dtype === "F16") return Float32Array.from(new Uint16Array(aligned), fromHalf);
  throw new Error(`a safetensors file holds numbers of type ${dtype}`);
}

/** The value of a float16, given as its bits. */
function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
}
