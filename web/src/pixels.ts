/** A photo, from its file to the pixels that an encoder reads: `data/photos.py` and the resizing of Pillow.

H height, W width, both in pixels; rows first. */

export interface Preprocessing {
  size: number;
  resize: "squash" | "squash-256" | "crop";
  mean: number[];
  std: number[];
}

export type Box = [left: number, top: number, right: number, bottom: number];
type Rows = (first: number, count: number) => Uint8ClampedArray; // pixels of some rows, RGBA

const STRIP = 256; // rows of a photo that are unpacked at a time, because phones limit the size of a canvas
const FIRST_SIDE = 256; // pixels of the square to which squash-256 brings a photo first
const BITS = 22; // of a weight of Pillow's resizing, which counts in whole numbers

/** The rectangle of a photo that the encoder sees, in the photo's pixels. */
export function visibleBox({ size, resize }: Preprocessing, width: number, height: number): Box {
  if (resize !== "crop") return [0, 0, width, height];
  const shortest = Math.round((size * 256) / 224);
  const resized = [width, height].map((side) => Math.floor((shortest * side) / Math.min(width, height)));
  const corner = resized.map((side) => halfEven((side - size) / 2));
  const scale = [width / resized[0], height / resized[1]];
  return [
    corner[0] * scale[0],
    corner[1] * scale[1],
    Math.min(width, (corner[0] + size) * scale[0]),
    Math.min(height, (corner[1] + size) * scale[1]),
  ];
}

/** A number rounded as Python rounds: a half to the even one. */
function halfEven(value: number): number {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}

/** The normalized pixels (3, size, size) of a decoded photo. */
export function pixels(photo: ImageBitmap, preprocessing: Preprocessing): Float32Array {
  const { size, mean, std } = preprocessing;
  const small = square(rowsOf(photo), [photo.width, photo.height], preprocessing);
  const found = new Float32Array(3 * size * size);
  for (let channel = 0; channel < 3; channel++) {
    const values = Float32Array.from({ length: 256 }, (_, level) => {
      const centered = Math.fround(Math.fround(level / 255) - Math.fround(mean[channel]));
      return centered / Math.fround(std[channel]);
    });
    for (let at = 0; at < size * size; at++) found[channel * size * size + at] = values[small[4 * at + channel]];
  }
  return found;
}

/** The square (size, size) that the encoder sees, RGBA. */
export function square(rows: Rows, photo: [number, number], preprocessing: Preprocessing): Uint8ClampedArray {
  const { size, resize } = preprocessing;
  const box = visibleBox(preprocessing, ...photo);
  if (resize !== "squash-256") return resized(rows, photo, box, size);
  const first = resized(rows, photo, box, FIRST_SIDE);
  return resized(rowsOfPixels(first, FIRST_SIDE), [FIRST_SIDE, FIRST_SIDE], [0, 0, FIRST_SIDE, FIRST_SIDE], size);
}

/** The rows of a photo on a white ground. */
function rowsOf(photo: ImageBitmap): Rows {
  const canvas = new OffscreenCanvas(photo.width, Math.min(STRIP, photo.height));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("this browser has no canvas to unpack photos on");
  return (first, count) => {
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(photo, 0, -first);
    return context.getImageData(0, 0, canvas.width, count).data;
  };
}

/** The rows of pixels (H, W). */
function rowsOfPixels(values: Uint8ClampedArray, width: number): Rows {
  return (first, count) => values.subarray(4 * first * width, 4 * (first + count) * width);
}

interface Weights {
  first: number; // the first input of this output
  values: number[]; // weights in 2^-BITS
}

/** The weights of each output of Pillow's bilinear filter along one side, from `start` to `end` of `inputs`. */
function bilinear(inputs: number, start: number, end: number, outputs: number): Weights[] {
  const scale = Math.fround(end - start) / outputs; // Pillow has boxes in float32
  const support = Math.max(1, scale); // a smaller picture averages all that it covers
  return Array.from({ length: outputs }, (_, output) => {
    const center = start + (output + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - support + 0.5));
    const count = Math.min(inputs, Math.trunc(center + support + 0.5)) - first;
    const weights = Array.from({ length: count }, (_, input) =>
      Math.max(0, 1 - Math.abs((first + input - center + 0.5) * (1 / support)))); // Pillow multiplies: the last bit counts
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return { first, values: weights.map((weight) => Math.trunc(0.5 + (weight / total) * 2 ** BITS)) };
  });
}

/** The box of a photo (W, H) as a square of `size` pixels a side, RGBA: what Pillow's `resize` gives, bit by bit.

Each of the two directions is rounded to 8 bits. Pillow goes along the rows first. From version 13 on it begins with the
columns where these shrink by more than twice as many pixels as the rows, as in a tall screenshot. */
function resized(rows: Rows, [width, height]: [number, number], box: Box, size: number): Uint8ClampedArray {
  const [left, top, right, bottom] = box.map(Math.fround); // as Pillow has them
  const across = bilinear(width, left, right, size);
  const down = bilinear(height, top, bottom, size);
  if (height - size <= 2 * Math.max(0, width - size)) return lowered(narrowed(rows, width, across), size, height, down);
  return narrowed(rowsOfPixels(lowered(rows, width, height, down), width), width, across)(0, size);
}

/** Rows of a photo made narrower. */
function narrowed(rows: Rows, width: number, across: Weights[]): Rows {
  return (first, count) => {
    const strip = rows(first, count);
    const found = new Uint8ClampedArray(4 * count * across.length);
    for (let row = 0; row < count; row++)
      for (let x = 0; x < across.length; x++)
        for (let channel = 0; channel < 3; channel++)
          found[4 * (row * across.length + x) + channel] = weighted(strip, 4 * row * width + channel, across[x]);
    return found;
  };
}

/** The weighted mean of every fourth value, rounded. */
function weighted(values: Uint8ClampedArray, offset: number, { first, values: weights }: Weights): number {
  let sum = 2 ** (BITS - 1);
  for (let input = 0; input < weights.length; input++) sum += values[offset + 4 * (first + input)] * weights[input];
  return sum >> BITS;
}

/** All columns of a photo made lower: (outputs, W). */
function lowered(rows: Rows, width: number, height: number, down: Weights[]): Uint8ClampedArray {
  const sums = new Int32Array(4 * down.length * width).fill(2 ** (BITS - 1));
  for (let first = 0; first < height; first += STRIP) {
    const count = Math.min(STRIP, height - first);
    const strip = rows(first, count);
    down.forEach(({ first: start, values }, y) => {
      for (let row = Math.max(0, start - first); row < Math.min(count, start + values.length - first); row++) {
        const weight = values[first + row - start];
        for (let at = 0; at < 4 * width; at++) sums[4 * y * width + at] += strip[4 * row * width + at] * weight;
      }
    });
  }
  return new Uint8ClampedArray(sums.map((sum) => sum >> BITS));
}
