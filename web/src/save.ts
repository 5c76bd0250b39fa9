/** Captions of a photo in files: a page in HTML, as `show/page` of Python writes it, and a picture. */

import captionsScript from "../../src/show_attend_tell/show/page/captions.js?raw";
import hideScript from "../../src/show_attend_tell/show/page/hide.js?raw";
import style from "../../src/show_attend_tell/show/page/page.css?raw";
import template from "../../src/show_attend_tell/show/page/page.html?raw";
import pageScript from "../../src/show_attend_tell/show/page/page.js?raw";
import type { Caption } from "./captioner.ts";

/** The page with the photo's captions and the cards of their models, by name. */
export async function captionsPage(photo: SatPhoto, cards: Record<string, string>): Promise<Blob> {
  const image = photo.preview ? await dataUri(photo.preview) : null;
  const captions = photo.answer as Caption[];
  const models = captions.map(({ settings }) => settings.model);
  const chosen = Object.fromEntries(Object.entries(cards).filter(([name]) => models.includes(name)));
  const script = captionsScript + hideScript + pageScript;
  const data = JSON.stringify({
    title: photo.name, photos: [{ name: photo.name, image, size: photo.size, captions }],
    full: true, cards: chosen, report: null, failed: [],
  }).replaceAll("<", "\\u003c"); // nothing in it can end the element that holds it
  const values: Record<string, string> = {
    policy: `default-src 'none'; script-src ${await fingerprint(script)}; style-src ${await fingerprint(style)}; `
      + "img-src data:; base-uri 'none'; form-action 'none'",
    title: photo.name.replaceAll("&", "&amp;").replaceAll("<", "&lt;"),
    style, data, script,
  };
  return new Blob([template.replace(/\$(\w+)/g, (_, name) => values[name])], { type: "text/html" });
}

function dataUri(blob: Blob): Promise<string> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result as string);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** What a content policy calls an inline script or style by: its SHA-256; where there is no HTTPS, all are allowed. */
async function fingerprint(text: string): Promise<string> {
  if (!("subtle" in crypto)) return "'unsafe-inline'";
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `'sha256-${btoa(String.fromCharCode(...hash))}'`;
}

const PANEL = 300; // pixels of a panel's width
const [MARGIN, GAP, ACROSS] = [36, 20, 4]; // around all, between panels, and panels in a row
const CELLS = 112; // side of a smoothed map

/** A picture of the captions, one below the other: the photo, then the photo once for each word with its evidence. */
export async function picture(photo: SatPhoto): Promise<Blob> {
  const captions = photo.answer as Caption[];
  const image = await createImageBitmap(photo.preview ?? photo.file);
  const height = Math.round((PANEL * image.height) / image.width);
  const rowHeight = height + 80;
  const rows = captions.map(({ words }) => Math.ceil((words.length + 1) / ACROSS));
  const canvas = new OffscreenCanvas(
    2 * MARGIN + ACROSS * (PANEL + GAP) - GAP,
    2 * MARGIN + rows.reduce((sum, count) => sum + 80 + count * rowHeight, 0),
  );
  const context = canvas.getContext("2d")!;
  const write = (text: string, x: number, y: number, size: number, color: string, width: number) => {
    context.font = `${size}px sans-serif`;
    context.fillStyle = color;
    context.fillText(text, x, y, width);
  };
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  let top = MARGIN;
  captions.forEach((caption, number) => {
    write(caption.caption, MARGIN, top + 28, 28, "#1c1e22", canvas.width - 2 * MARGIN);
    const note = `${caption.settings.model} · attention mode: ${caption.settings.attention_mode}`
      + ` · log p ${caption.log_probability.toFixed(2)}`;
    write(note, MARGIN, top + 54, 16, "#646870", canvas.width - 2 * MARGIN);
    top += 80;
    const drawing = SatCaptions.drawing(caption, "evidence");
    const overlays = drawing && overlaysOf(drawing, caption.words.length);
    ["photo", ...caption.words].forEach((word, index) => {
      const x = MARGIN + (index % ACROSS) * (PANEL + GAP);
      const y = top + Math.floor(index / ACROSS) * rowHeight;
      context.drawImage(image, x, y, PANEL, height);
      const scale = [PANEL / caption.size[0], height / caption.size[1]];
      const [left, up, right, down] = caption.visible_box.map((side, at) => side * scale[at % 2]);
      context.fillStyle = "rgb(255 255 255 / 85%)"; // outside the visible box
      context.fill(frame([x, y, PANEL, height], [x + left, y + up, right - left, down - up]), "evenodd");
      if (index && overlays) context.drawImage(overlays[index - 1], x + left, y + up, right - left, down - up);
      if (index && caption.locations) {
        const [row, column] = caption.locations[index - 1];
        const [w, h] = [(right - left) / caption.attention![0][0].length, (down - up) / caption.attention![0].length];
        context.strokeStyle = "#e66100";
        context.lineWidth = 3;
        context.strokeRect(x + left + (column + caption.offset[1]) * w, y + up + (row + caption.offset[0]) * h, w, h);
      }
      write(word, x, y + height + 32, 24, index ? "#1c1e22" : "#646870", PANEL);
      if (!index) return;
      if (drawing) write(numbers(caption, drawing, index - 1), x, y + height + 54, 16, "#646870", PANEL);
    });
    top += rows[number] * rowHeight;
  });
  image.close();
  return canvas.convertToBlob({ type: "image/png" });
}

/** A panel without the box in it. */
function frame(panel: [number, number, number, number], box: [number, number, number, number]): Path2D {
  const path = new Path2D();
  path.rect(...panel);
  path.rect(...box);
  return path;
}

/** What lies over the visible box for each word, on one scale for all words. */
function overlaysOf(drawing: SatCaptions.Drawing, words: number): OffscreenCanvas[] {
  return Array.from({ length: words }, (_, word) => {
    const canvas = new OffscreenCanvas(CELLS, CELLS);
    const context = canvas.getContext("2d")!;
    const pixels = new ImageData(CELLS, CELLS);
    drawing.strength(word).forEach((strength, cell) => pixels.data.set(SatCaptions.light(strength), 4 * cell));
    context.putImageData(pixels, 0, 0);
    return canvas;
  });
}

/** What stands below a word, as in show/pictures/figure.py. */
function numbers(caption: Caption, drawing: SatCaptions.Drawing, word: number): string {
  if (drawing.evident)
    return [`evidence ${Math.round(100 * drawing.share(word))} %`, drawing.where(word)].filter(Boolean).join(" · ");
  const beta = caption.gate ? `β ${caption.gate[word].toFixed(2)} · ` : "";
  return `${beta}peak α ${drawing.peak(word).toFixed(3)}`;
}
