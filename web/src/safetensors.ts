/** Arrays of a safetensors file: a length, a header in JSON, and the arrays' bytes. */

export type Numbers = Float32Array | Int32Array | Uint8Array;
export type Arrays = Map<string, { data: Numbers; shape: number[] }>;

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/** The arrays of a file's content. */
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
  if (dtype === "I32") return new Int32Array(aligned);
  if (dtype === "F32") return new Float32Array(aligned);
  throw new Error(`a safetensors file holds numbers of type ${dtype}`);
}
