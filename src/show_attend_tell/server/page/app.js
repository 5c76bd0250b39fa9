/* The web app: photos come in, are sent to the server one by one, and each answer is drawn. */
(() => {
  "use strict";

  const AT_ONCE = 4; // photos that are sent at a time
  const PREVIEW = 1600; // pixels of the longer side of what is shown
  const AGAIN = 2000; // milliseconds between looks whether a server that went away is back
  const make = SatCaptions.make;
  const element = (id) => document.getElementById(id);
  const results = element("results"), model = element("model"), beam = element("beam");
  const photos = []; // those on the page, the newest first
  const queue = []; // those that are still to be sent
  let asking = 0, limits = null, cards = {}, gone = false;

  class Gone extends Error {} // the server does not answer
  class Refused extends Error { // the server answers with a refusal
    constructor(detail, status) {
      super(detail);
      this.another = status >= 500; // a second try may succeed
    }
  }

  // Talking to the server

  /** The server's answer: asked with its token, and again when it is busy. Throws `Gone`, `Refused`, or an AbortError. */
  async function ask(path, { body, signal, read = "json", busy = () => {} } = {}) {
    for (;;) {
      const token = sessionStorage.getItem("token");
      let response, answer;
      try {
        response = await fetch(path, {
          method: body ? "POST" : "GET", body, signal, headers: token ? { Authorization: `Bearer ${token}` } : {},
        });
        answer = await response[response.ok ? read : "json"]();
      } catch (error) {
        if (signal?.aborted) throw error;
        throw new Gone();
      }
      if (response.ok) return answer;
      if (response.status === 401) {
        await askForToken(token);
      } else if (response.status === 503) {
        const seconds = Number(response.headers.get("Retry-After")) || 1;
        busy(seconds);
        await pause(1000 * seconds, signal);
      } else {
        throw new Refused(answer.detail, response.status);
      }
    }
  }

  function pause(milliseconds, signal) {
    return new Promise((done, fail) => {
      const timer = setTimeout(done, milliseconds);
      signal?.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason); });
    });
  }

  let dialog = null; // one for all who wait for it
  function askForToken(refused) {
    if (sessionStorage.getItem("token") !== refused) return Promise.resolve(); // another has asked meanwhile
    dialog ??= new Promise((done) => {
      const box = element("asked"), field = element("token");
      field.value = "";
      box.showModal();
      box.oncancel = (event) => event.preventDefault(); // nothing works without it
      box.querySelector("form").onsubmit = (event) => {
        event.preventDefault();
        sessionStorage.setItem("token", field.value.trim());
        box.close();
        dialog = null;
        done();
      };
    });
    return dialog;
  }

  /** Say that the server is away, and look until it is back; then go on where we were. */
  async function awaitServer() {
    if (gone) return;
    gone = true;
    notice("The server does not answer. Your photos stay on this page and are sent again when it is back.");
    for (;;) {
      await pause(AGAIN);
      const back = await fetch("/healthz").then((response) => response.ok, () => false);
      if (back) break;
    }
    gone = false;
    notice("");
    await start();
    for (const photo of photos) if (photo.waiting) enqueue(photo);
  }

  function notice(text) {
    element("gone").textContent = text;
    element("gone").hidden = !text;
  }

  // Photos

  function add(files) {
    for (const file of files) {
      const photo = { file, name: file.name || "pasted photo", image: null, size: null };
      photo.state = make("p", { class: "state" });
      photo.body = make("div");
      const act = (text, work) => make("button", {
        type: "button", "aria-label": `${text}: ${photo.name}`, onclick: (event) => work(photo, event.currentTarget),
      }, text);
      photo.saves = make("span", { class: "acts", hidden: true },
        act("Save picture", savePicture), act("Save page", savePage), act("Save JSON", saveJSON));
      photo.element = make("article", { class: "result", "aria-label": photo.name },
        make("header", {}, make("h2", { dir: "auto" }, photo.name), photo.saves, make("span", { class: "acts" }, act("Remove", remove))),
        photo.state, photo.body);
      photos.unshift(photo);
      results.prepend(photo.element);
      document.body.classList.add("filled");
      photo.ready = preview(photo);
      enqueue(photo);
    }
  }

  /** A copy of the photo that any browser shows quickly: its first frame, upright, on white, no larger than the page. */
  async function preview(photo) {
    try {
      const bitmap = await createImageBitmap(photo.file);
      const scale = Math.min(1, PREVIEW / Math.max(bitmap.width, bitmap.height));
      const canvas = make("canvas", { width: Math.ceil(bitmap.width * scale), height: Math.ceil(bitmap.height * scale) });
      const context = canvas.getContext("2d");
      context.fillStyle = "white";
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.9));
      photo.size = [bitmap.width, bitmap.height];
      photo.image = URL.createObjectURL(blob);
      bitmap.close();
      if (!photo.shown) photo.body.append(make("img", { class: "preview", src: photo.image, alt: "" }));
    } catch {
      photo.image = null; // not a photo, which the server will say, or of a kind that it knows and the browser does not
    }
  }

  function remove(photo) {
    photo.controller?.abort();
    photo.waiting = false;
    photo.shown?.destroy();
    if (photo.image) URL.revokeObjectURL(photo.image);
    const at = photos.indexOf(photo);
    photos.splice(at, 1);
    photo.element.remove();
    document.body.classList.toggle("filled", photos.length > 0);
    const next = photos[Math.min(at, photos.length - 1)];
    (next ? next.element.querySelector("header > :last-child button") : element("choose")).focus();
  }

  // Captions

  function enqueue(photo) {
    photo.controller?.abort();
    photo.controller = new AbortController();
    photo.waiting = true;
    photo.element.setAttribute("aria-busy", "true");
    say(photo, "Looking …");
    if (!queue.includes(photo)) queue.push(photo);
    pump();
  }

  async function pump() {
    if (asking >= AT_ONCE || !queue.length) return;
    const photo = queue.shift();
    asking++;
    pump();
    const { signal } = photo.controller;
    try {
      await caption(photo, signal);
      done(photo);
    } catch (error) {
      if (signal.aborted) {
        // removed, or already asked about again
      } else if (error instanceof Gone) {
        say(photo, "Waiting for the server …");
        awaitServer();
      } else {
        done(photo);
        if (!photo.shown) photo.body.replaceChildren();
        fail(photo, error);
      }
    }
    asking--;
    pump();
  }

  function done(photo) {
    photo.waiting = false;
    photo.element.removeAttribute("aria-busy");
  }

  function say(photo, text) {
    photo.state.textContent = text;
    photo.state.hidden = !text;
    photo.state.classList.remove("bad");
  }

  function fail(photo, error) {
    say(photo, error instanceof Refused ? error.message : `This page failed: ${error.message}`);
    photo.state.classList.add("bad");
    announce(`${photo.name}: ${error.message}`);
    if (error.another)
      photo.state.append(make("button", { type: "button", class: "button", onclick: () => enqueue(photo) }, "Try again"));
  }

  function announce(text) {
    element("said").textContent = text;
  }

  /** The request about a photo, with what is chosen. */
  function question(photo, format = "json") {
    if (limits && photo.file.size > limits.request_bytes)
      throw new Refused(`This photo has ${megabytes(photo.file.size)}; the server takes ${megabytes(limits.request_bytes)} at most.`);
    const form = new FormData();
    form.append("photos", photo.file, photo.name);
    form.append("format", format);
    for (const name of JSON.parse(model.value || "[]")) form.append("model", name);
    if (beam.value) form.append("beam", beam.value);
    return form;
  }

  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

  async function caption(photo, signal) {
    const busy = (seconds) => say(photo, `The server is busy. Trying again in ${seconds} s.`);
    await started;
    const answer = await ask("/v1/captions", { body: question(photo), signal, busy });
    await photo.ready;
    signal.throwIfAborted();
    photo.answer = answer;
    photo.shown?.destroy();
    photo.body.replaceChildren();
    const captions = answer.map((one) => ({
      ...one,
      image: photo.image,
      size: photo.size ?? one.seen.slice(2),
      note: photo.image ? undefined : "this browser cannot show this kind of photo",
    }));
    photo.shown = SatCaptions.mount(photo.body, captions, { cards });
    photo.saves.hidden = false;
    say(photo, "");
    announce(answer.map((one) => `${photo.name}, by ${one.settings.model}: ${one.caption}`).join(". "));
  }

  // Saving

  function save(photo, blob, ending) {
    const link = make("a", { href: URL.createObjectURL(blob), download: photo.name.replace(/\.[^.]*$/, "") + ending });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /** Have the server draw the answer, in the settings that it was made with. */
  async function drawn(photo, button, format) {
    button.disabled = true;
    try {
      save(photo, await ask("/v1/captions", { body: question(photo, format), read: "blob" }), `.${format}`);
    } catch (error) {
      if (error instanceof Gone) awaitServer();
      else fail(photo, error);
    }
    button.disabled = false;
  }

  const savePicture = (photo, button) => drawn(photo, button, "png");
  const savePage = (photo, button) => drawn(photo, button, "html");

  function saveJSON(photo) {
    save(photo, new Blob([JSON.stringify(photo.answer, null, 1)], { type: "application/json" }), ".json");
  }

  // The page

  /** Ask which models there are, and offer them; what is chosen stays so. */
  async function start() {
    let answer;
    try {
      answer = await ask("/v1/models");
    } catch (error) {
      if (error instanceof Gone) awaitServer();
      else notice(error.message);
      return;
    }
    limits = answer.limits;
    cards = Object.fromEntries(answer.models.map((one) => [one.name, one.card]));
    const before = model.value, names = answer.models.map((one) => one.name);
    const option = (text, chosen) => make("option", { value: JSON.stringify(chosen) }, text);
    model.replaceChildren(...names.map((name) => option(name, [name])));
    if (names.length === 2) model.append(option("both, side by side", names));
    if ([...model.options].some((one) => one.value === before)) model.value = before;
    element("settings").hidden = false;
  }

  function take(event) {
    add(event.target.files);
    event.target.value = ""; // so that the same photo can be chosen again
  }

  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  element("choose").addEventListener("change", take);
  element("camera").addEventListener("change", take);
  element("settings").addEventListener("change", () => photos.forEach(enqueue));
  element("settings").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("paste", (event) => add(event.clipboardData.files));
  document.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dragging");
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    document.body.classList.remove("dragging");
    add(event.dataTransfer.files);
  });
  document.querySelector(".sat-header").append(SatCaptions.themeButton());
  const started = start();
})();
