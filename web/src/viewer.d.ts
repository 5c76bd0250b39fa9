/** What the package's scripts for pages define: show/page/captions.js, show/page/hide.js and server/page/photos.js. */

interface SatPhoto {
  file: File;
  name: string;
  image: string | null;
  preview?: Blob; // what `image` shows
  size: [number, number] | null;
  note?: string;
  answer?: object[];
}

declare namespace SatCaptions {
  /** A caption's evidence, or its attention, as it is drawn over the visible box (112 × 112, flat). */
  interface Drawing {
    evident: boolean;
    rows: number; // of locations
    columns: number;
    strength(word: number): Float32Array; // 0 to 1
    share(word: number): number; // of the strongest evidence of the caption
    peak(word: number): number;
    where(word: number): string | null; // in the photo; null for hardly any evidence
  }
  function drawing(caption: object, shown: "evidence" | "attention"): Drawing | null;
  function light(strength: number): number[]; // red, green, blue and opacity, 0 to 255
}

declare module "*/review/page/here.js" {
  /** A review of photos that are chosen on the page. */
  class Here {
    rows: object[];
    constructor(options: {
      caption: (file: File, name: string) => Promise<object>;
      save: (blob: Blob, name: string) => void;
      model: () => string;
      note: string;
    });
  }
}

declare module "*/review/page/review.js";

declare namespace SatHide {
  function keep(blob: Blob, name: string): void;
  function sheet(panels: ({ canvas: OffscreenCanvas; text: string[] } | null)[], lines: string[], across: number): Promise<Blob>;
}

declare namespace SatPhotos {
  class Refused extends Error {
    constructor(message: string, another?: boolean);
  }
  function offer(list: HTMLSelectElement, names: string[]): void;
  function open(options: {
    atOnce: number;
    caption: (photo: SatPhoto, signal: AbortSignal, say: (text: string) => void) => Promise<object[]>;
    /** Hide the place of the word of a number, or a mask of runs. */
    hide: (photo: SatPhoto, caption: object, asked: { step: number | null; mask: number[] | null }) => Promise<object>;
    cards: () => Record<string, string>;
    acts: [string, (photo: SatPhoto, button: HTMLButtonElement) => void][];
  }): {
    photos: SatPhoto[];
    notice(text: string): void;
    save(photo: SatPhoto, blob: Blob, ending: string): void;
  };
}
