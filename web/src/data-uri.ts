/** A file as a data: URL. */
export async function dataUri(file: Blob): Promise<string> {
  const letters = Array.from(new Uint8Array(await file.arrayBuffer()), (byte) => String.fromCharCode(byte));
  return `data:${file.type};base64,${btoa(letters.join(""))}`;
}
