/* Photos on a page: chosen, taken, dropped or pasted, each captioned, drawn by SatCaptions (many in a grid), and removable.

   SatPhotos.open({atOnce, caption, hide, acts, cards}) takes the page's elements by their ids and returns {photos, add, resume,
   fail, notice, save}. caption(photo, signal, say) gives a photo's captions as SatCaptions.mount takes them, but
   for image and size; atOnce are asked for at a time. It may set photo.note, and say(text) what is going on. It throws
   SatPhotos.Refused for a photo without captions, and SatPhotos.Waiting for one that waits until resume(). acts are what
   can be done with a captioned photo: [text, work(photo, button)]. cards() gives the models' cards by name. With
   hide(photo, caption, {step, mask}), places of a photo can be hidden, see captions.js. */
(() => {
  "use strict";

  const PREVIEW = 1600; // pixels of the longer side of what is shown
  const FEW = 6; // photos that are all shown in full
  const make = SatCaptions.make;
  const element = (id) => document.getElementById(id);

  class Waiting extends Error {} // the message says what for
  class Refused extends Error { // the message is for people
    constructor(message, another = false) {
      super(message);
      this.another = another; // a second try may succeed
    }
  }

  function open({ atOnce, caption, hide, acts, cards }) {
    const photos = []; // those on the page, the newest first
    const queue = []; // those that still need captions
    let asking = 0, gridded = false;
    let previewed = Promise.resolve(); // previews are made one by one: a photo takes much memory while it is decoded

    // Photos

    /** Show photos above the earlier ones, in their own order, and caption them. */
    function add(files) {
      const earlier = element("results").firstChild, added = [];
      for (const file of files) {
        const photo = { file, name: file.name || "pasted photo", image: null, size: null };
        photo.state = make("p", { class: "state" });
        photo.body = make("div");
        const act = (text, work) => make("button", {
          type: "button", "aria-label": `${text}: ${photo.name}`, onclick: (event) => work(photo, event.currentTarget),
        }, text);
        photo.tile = make("div");
        photo.saves = make("span", { class: "acts", hidden: true }, [...acts, ["Save JSON", saveJSON]].map((each) => act(...each)));
        photo.element = make("article", { class: "result", "aria-label": photo.name },
          make("header", {}, make("h2", { dir: "auto" }, photo.name), photo.saves, make("span", { class: "acts" }, act("Close", close), act("Remove", remove))),
          photo.tile, photo.state, photo.body);
        added.push(photo);
        element("results").insertBefore(photo.element, earlier);
        document.body.classList.add("filled");
        photo.ready = previewed = previewed.then(() => preview(photo));
        enqueue(photo);
      }
      photos.unshift(...added);
      arrange(added);
    }

    // Few in full, many in a grid

    /** Draw photos that were added, and all where few have become many or many few. */
    function arrange(added = []) {
      const before = gridded;
      gridded = element("results").classList.toggle("grid", photos.length > FEW);
      (gridded === before ? added : photos).forEach(draw);
    }

    /** Draw a photo with what is known of it: in full, or in a grid small, unless it was opened. */
    function draw(photo) {
      const { image, answer, opened, shown } = photo, small = gridded && !opened;
      photo.element.classList.toggle("small", small);
      const lines = (answer ?? []).map((one) => SatCaptions.line(one, photo.name));
      photo.tile.replaceChildren(...(small ? [SatCaptions.tile(image, photo.name, lines, () => show(photo))] : []));
      shown?.destroy();
      photo.shown = null;
      photo.body.replaceChildren();
      if (!small && !answer && image) photo.body.append(make("img", { class: "preview", src: image, alt: "" }));
      if (small || !answer) return;
      const captions = answer.map((one) => ({
        ...one,
        image,
        size: photo.size ?? one.size ?? one.visible_box.slice(2),
        note: image ? photo.note : "this browser cannot show this kind of photo",
      }));
      const keep = async (one, asked) => {
        const found = await hide(photo, one, asked);
        if (!asked.mask) (answer[captions.indexOf(one)].hidden = one.hidden ??= []).push(found); // a saved page has it too
        return found;
      };
      photo.shown = SatCaptions.mount(photo.body, captions, { cards: cards(), hide: hide && keep });
    }

    function show(photo) {
      photo.opened = true;
      draw(photo);
      photo.element.scrollIntoView({ block: "nearest" });
      photo.element.querySelector("[aria-label^='Close']").focus({ preventScroll: true });
    }

    function close(photo) {
      photo.opened = false;
      draw(photo);
      photo.tile.firstChild.focus();
    }

    /** Have a copy of the photo to show. */
    async function preview(photo) {
      if (!photo.element.isConnected) return; // it was removed
      try {
        const { blob, size } = await shrink(photo.file, PREVIEW);
        if (!photo.element.isConnected) return;
        photo.size = size;
        photo.preview = blob;
        photo.image = URL.createObjectURL(blob);
        draw(photo);
      } catch {
        photo.image = null; // not a photo, which `caption` will say, or of a kind that it knows and the browser does not
      }
    }

    function remove(photo) {
      photo.controller?.abort();
      photo.waiting = false;
      photo.shown?.destroy();
      if (photo.image) URL.revokeObjectURL(photo.image);
      const at = photos.indexOf(photo);
      photos.splice(at, 1);
      arrange();
      photo.element.remove();
      document.body.classList.toggle("filled", photos.length > 0);
      const next = photos[Math.min(at, photos.length - 1)];
      (next ? next.tile.firstChild ?? next.element.querySelector("header > :last-child :last-child") : element("choose")).focus();
    }

    // Captions

    function enqueue(photo) {
      photo.controller?.abort();
      photo.controller = new AbortController();
      photo.waiting = true;
      photo.element.setAttribute("aria-busy", "true");
      say(photo, "Waiting …");
      if (!queue.includes(photo)) queue.push(photo);
      pump();
    }

    async function pump() {
      if (asking >= atOnce || !queue.length) return;
      const photo = queue.shift();
      asking++;
      pump();
      const { signal } = photo.controller;
      try {
        if (!signal.aborted) await captioned(photo, signal);
        if (!signal.aborted) done(photo);
      } catch (error) {
        if (signal.aborted) {
          // removed, or already asked about again
        } else if (error instanceof Waiting) {
          say(photo, error.message);
        } else {
          done(photo);
          fail(photo, error);
          await photo.ready; // or its preview would come later
          if (!photo.shown) photo.body.replaceChildren();
        }
      }
      asking--;
      pump();
    }

    /** Ask again for the captions of all photos that wait. */
    function resume() {
      for (const photo of photos) if (photo.waiting) enqueue(photo);
    }

    async function captioned(photo, signal) {
      say(photo, "Captioning …");
      const answer = await caption(photo, signal, (text) => signal.aborted || say(photo, text));
      await photo.ready;
      signal.throwIfAborted();
      photo.answer = answer;
      draw(photo);
      photo.saves.hidden = false;
      say(photo, "");
      announce(answer.map((one) => `${photo.name}, by ${one.settings.model}: ${one.caption}`).join(". "));
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
      element("announcement").textContent = text;
    }

    /** Say something about the page above its photos; an empty text takes it away. */
    function notice(text) {
      element("gone").textContent = text;
      element("gone").hidden = !text;
    }

    // Saving

    function save(photo, blob, ending) {
      SatHide.keep(blob, photo.name.replace(/\.[^.]*$/, "") + ending);
    }

    function saveJSON(photo) {
      save(photo, new Blob([JSON.stringify(photo.answer, null, 1)], { type: "application/json" }), ".json");
    }

    // The page

    function take(event) {
      add(event.target.files);
      event.target.value = ""; // so that the same photo can be chosen again
    }

    const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
    element("choose").addEventListener("change", take);
    element("camera").addEventListener("change", take);
    const settings = element("settings");
    settings.addEventListener("change", () => photos.forEach(enqueue));
    settings.addEventListener("submit", (event) => event.preventDefault());
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
    return { photos, add, resume, fail, notice, save };
  }

  /** A copy of a photo that any browser shows quickly: its first frame, upright, on white, its longer side at most so many pixels. */
  async function shrink(file, longest) {
    const bitmap = await createImageBitmap(file);
    const { width, height } = bitmap;
    const scale = Math.min(1, longest / Math.max(width, height));
    const canvas = make("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
    const context = canvas.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.9));
    return { blob, size: [width, height] };
  }

  /** Offer models by name in a list, each alone, and two also side by side; what is chosen stays so. */
  function offer(list, names) {
    const before = list.value;
    const option = (text, chosen) => make("option", { value: JSON.stringify(chosen) }, text);
    list.replaceChildren(...names.map((name) => option(name, [name])));
    if (names.length === 2) list.append(option("both, side by side", names));
    if ([...list.options].some((one) => one.value === before)) list.value = before;
    element("settings").hidden = false;
  }

  globalThis.SatPhotos = { open, offer, shrink, Waiting, Refused };
})();
