/** Captions of a photo in files: a page in HTML, as `show/page` of Python writes it, and a picture. */

import shell from "virtual:page";
import type { Caption } from "./captioner.ts";
import { dataUri } from "./data-uri.ts";

/** The page with the photo's captions and the cards of their models, by name. */
export async function captionsPage(photo: SatPhoto, cards: Record<string, string>): Promise<Blob> {
  const image = photo.preview ? await dataUri(photo.preview) : null;
  const captions = photo.answer as Caption[];
  const models = captions.map(({ settings }) => settings.model);
  const data = JSON.stringify({
    title: photo.name, photos: [{ name: photo.name, image, size: photo.size, captions }],
    full: true, cards: Object.fromEntries(models.map((name) => [name, cards[name]])), report: null, failed: [],
  }).replaceAll("<", "\\u003c"); // nothing in it can end the element that holds it
  const title = photo.name.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const values: Record<string, string> = { ...shell, title, data };
  return new Blob([shell.template.replace(/\$(\w+)/g, (_, name) => values[name])], { type: "text/html" });
}

const PANEL = 300; // pixels of a panel's width
const ACROSS = 4; // panels in a row
const CELLS = 112; // side of a smoothed map

/** A picture of the captions: for each the photo, then the photo once for each word with its evidence. */
export async function picture(photo: SatPhoto): Promise<Blob> {
  const image = await createImageBitmap(photo.preview ?? photo.file);
  const columns = (photo.answer as Caption[]).flatMap((caption) => {
    const { model, attention_mode: mode } = caption.settings;
    const note = `${model} · attention mode: ${mode} · log p ${caption.log_probability.toFixed(2)}`;
    const drawing = SatCaptions.drawing(caption, "evidence");
    const words = caption.words.map((word, index) => ({
      canvas: panel(image, caption, drawing, index),
      text: drawing ? [word, numbers(caption, drawing, index)] : [word],
    }));
    const panels = [{ canvas: panel(image, caption), text: [caption.caption, note] }, ...words];
    const rows = Math.ceil(panels.length / ACROSS);
    return Array.from({ length: rows * ACROSS }, (_, at) => panels[at] ?? null);
  });
  image.close();
  return SatHide.sheet(columns, [], ACROSS);
}

/** The photo, pale where the encoder did not see it, with what lies over it for a word. */
function panel(image: ImageBitmap, caption: Caption, drawing: SatCaptions.Drawing | null = null, word = -1): OffscreenCanvas {
  const canvas = new OffscreenCanvas(PANEL, Math.round((PANEL * image.height) / image.width));
  const context = canvas.getContext("2d")!;
  const [width, height] = caption.size;
  const [left, top, right, bottom] = caption.visible_box;
  context.scale(canvas.width / width, canvas.height / height); // from here on in the photo's pixels
  context.globalAlpha = 0.15;
  context.drawImage(image, 0, 0, width, height);
  context.globalAlpha = 1;
  context.save();
  context.rect(left, top, right - left, bottom - top);
  context.clip();
  context.drawImage(image, 0, 0, width, height);
  context.restore();
  if (drawing) context.drawImage(overlay(drawing.strength(word)), left, top, right - left, bottom - top);
  if (drawing && caption.locations) {
    const [row, column] = caption.locations[word];
    const [across, down] = [(right - left) / drawing.columns, (bottom - top) / drawing.rows];
    context.strokeStyle = "#e66100";
    context.lineWidth = (3 * width) / PANEL;
    context.strokeRect(left + (column + caption.offset[1]) * across, top + (row + caption.offset[0]) * down, across, down);
  }
  return canvas;
}

/** What lies over the visible box, by its strength in each cell. */
function overlay(strengths: Float32Array): OffscreenCanvas {
  const canvas = new OffscreenCanvas(CELLS, CELLS);
  const pixels = new ImageData(CELLS, CELLS);
  strengths.forEach((strength, cell) => pixels.data.set(SatCaptions.light(strength), 4 * cell));
  canvas.getContext("2d")!.putImageData(pixels, 0, 0);
  return canvas;
}

/** What stands below a word, as in show/pictures/figure.py. */
function numbers(caption: Caption, drawing: SatCaptions.Drawing, word: number): string {
  if (drawing.evident)
    return [`evidence ${Math.round(100 * drawing.share(word))} %`, drawing.where(word)].filter(Boolean).join(" · ");
  const beta = caption.gate ? `β ${caption.gate[word].toFixed(2)} · ` : "";
  return `${beta}peak α ${drawing.peak(word).toFixed(3)}`;
}
