/* The page of a review in the web app: photos are sent to the server, and all else stays in the browser. */
import { Here } from "./here.js";

const AT_ONCE = 4; // photos that are sent at a time
const { Gone, ask, answers, back } = SatServer;
const element = (id) => document.getElementById(id);
const model = element("model");

async function caption(photo, name) {
  await started;
  const form = new FormData();
  form.append("photos", photo, name);
  form.append("model", JSON.parse(model.value)[0]);
  for (;;) {
    try {
      return (await ask("v1/captions", { body: form }))[0];
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
      if (await answers()) throw new Error("This photo cannot be sent: its file was changed or deleted.");
      await untilBack();
    }
  }
}

async function untilBack() {
  element("cost").textContent = "The server does not answer. Photos are sent again when it is back.";
  await back();
  element("cost").textContent = "";
}

async function start() {
  try {
    SatPhotos.offer(model, (await ask("v1/models")).models.map((one) => one.name));
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    await untilBack();
    await start();
  }
}

const here = new Here({
  caption, atOnce: AT_ONCE, save: SatHide.keep, model: () => model.selectedOptions[0]?.text ?? "",
  note: "Your photos are sent to this server only. It does not keep them.",
});
const started = start();
started.catch((error) => { element("cost").textContent = error.message; });
globalThis.SatReview = here;
await import("./review.js");
