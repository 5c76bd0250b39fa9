/* The web app: photos are sent to the server one by one, and each answer is drawn. */
(() => {
  "use strict";

  const AT_ONCE = 4; // photos that are sent at a time
  const { Waiting, Refused } = SatPhotos, { Gone, ask, answers, back, megabytes } = SatServer;
  const element = (id) => document.getElementById(id);
  const model = element("model"), beamSize = element("beam_size");
  let limits = null, cards = {}, gone = false;

  /** Say that the server is away, ask until it is back, then go on where we were. */
  async function awaitServer() {
    if (gone) return;
    gone = true;
    page.notice("The server does not answer. Your photos stay on this page and are sent again when it is back.");
    await back();
    gone = false;
    page.notice("");
    await start();
    page.resume();
  }

  // Captions

  /** The request about a photo, with what is chosen, and more fields of the form. */
  function question(photo, more) {
    if (limits && photo.file.size > limits.request_bytes)
      throw new Refused(`This photo has ${megabytes(photo.file.size)}; the server takes ${megabytes(limits.request_bytes)} at most.`);
    const form = new FormData();
    form.append("photos", photo.file, photo.name);
    for (const name of JSON.parse(model.value || "[]")) form.append("model", name);
    if (beamSize.value) form.append("beam_size", beamSize.value);
    for (const [name, value] of Object.entries(more)) form.set(name, value);
    return form;
  }

  async function caption(photo, signal, say) {
    const busy = (seconds) => say(`The server is busy. Trying again in ${seconds} s.`);
    await started;
    try {
      const answer = await ask("v1/captions", { body: question(photo, { evidence: true }), signal, busy });
      photo.unsent = 0;
      return answer;
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
      if (await answers()) photo.unsent = (photo.unsent ?? 0) + 1; // the server is there
      if (photo.unsent > 1) throw new Refused("This photo cannot be sent. If its file was changed or deleted, choose it again.", true);
      awaitServer();
      throw new Waiting("Waiting for the server …");
    }
  }

  /** Have the server hide a word's place, or a painted one, and caption the photo again. */
  async function hide(photo, caption, { step, mask }) {
    const place = mask ? JSON.stringify(mask) : "";
    try {
      const [answer] = await ask("v1/hidden", { body: question(photo, { model: caption.settings.model, word: step ?? "", place }) });
      return answer;
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
      awaitServer();
      throw new Error("The server does not answer. Try again when it is back.");
    }
  }

  /** Have the server draw the answer, in the settings that it was made with. */
  async function saveDrawn(photo, button, format) {
    button.disabled = true;
    try {
      const drawn = await ask("v1/captions", { body: question(photo, { format }), read: "blob" });
      page.save(photo, drawn, `.${format}`);
    } catch (error) {
      if (error instanceof Gone) awaitServer();
      else page.fail(photo, error);
    }
    button.disabled = false;
  }

  // The page

  /** Ask which models there are, and offer them. */
  async function start() {
    try {
      const answer = await ask("v1/models");
      limits = answer.limits;
      cards = Object.fromEntries(answer.models.map((one) => [one.name, one.card]));
      SatPhotos.offer(model, answer.models.map((one) => one.name));
    } catch (error) {
      if (error instanceof Gone) awaitServer();
      else page.notice(error.message);
    }
  }

  const page = SatPhotos.open({
    atOnce: AT_ONCE,
    caption,
    hide,
    cards: () => cards,
    acts: [
      ["Save picture", (photo, button) => saveDrawn(photo, button, "png")],
      ["Save page", (photo, button) => saveDrawn(photo, button, "html")],
    ],
  });
  const started = start();
  element("try").addEventListener("click", async () => {
    const example = await fetch("static/example.jpg").then((response) => response.blob(), () => null);
    if (example) page.add([new File([example], "example.jpg", { type: "image/jpeg" })]);
    else awaitServer();
  });
})();
