/** Arrays of a safetensors file: a length, a header in JSON, and the arrays' bytes. */

export type Numbers = Float32Array | Int32Array | Uint8Array;
export type Arrays = Map<string, Numbers>;

const KINDS = { F32: Float32Array, I32: Int32Array, U8: Uint8Array };

interface Entry {
  dtype: keyof typeof KINDS;
  data_offsets: [number, number];
}

/** The arrays of a file's content, flat. */
export function readArrays(content: ArrayBuffer): Arrays {
  const length = Number(new DataView(content).getBigUint64(0, true));
  const { __metadata__: _, ...header } = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 8, length)));
  return new Map(Object.entries<Entry>(header).map(([name, { dtype, data_offsets: offsets }]) => {
    const [start, end] = offsets.map((offset) => 8 + length + offset);
    return [name, new KINDS[dtype](content.slice(start, end))]; // a copy begins where its numbers may
  }));
}
