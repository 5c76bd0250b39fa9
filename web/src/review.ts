/** The page of a review, of photos that never leave this device. */

import "../../src/show_attend_tell/show/page/page.css";
import "../../src/show_attend_tell/review/page/review.css";
import "../../src/show_attend_tell/show/page/captions.js";
import "../../src/show_attend_tell/show/page/hide.js";
import "../../src/show_attend_tell/server/page/photos.js";
import { Here } from "../../src/show_attend_tell/review/page/here.js";
import { captions, element, start } from "./captioning.ts";
import { register } from "./offline.ts";

const model = element<HTMLSelectElement>("model");

async function caption(file: File, name: string): Promise<object> {
  await started;
  const [[only]] = await captions(file, name, null, () => {});
  return only;
}

const here = new Here({
  caption,
  save: SatHide.keep,
  model: () => model.selectedOptions[0]?.text ?? "",
  note: "Your photos stay on this device. Nothing is uploaded.",
});
const started = register(() => here.rows.length === 0).then(start).then(() => {
  for (const option of [...model.options]) if (JSON.parse(option.value).length > 1) option.remove(); // one at a time
});
started.catch((error) => { element("cost").textContent = `This page could not be loaded: ${error.message}.`; });
Object.assign(globalThis, { SatReview: here });
await import("../../src/show_attend_tell/review/page/review.js");
