/* A page of captions, or the report of an evaluation: a few photos in full, many as an index to search and to sort.

   The page carries {title, photos, full, cards, report, failed}. A photo is {name, image, size, references, captions}; its captions
   are what SatCaptions.mount takes, but for the image and its size. In a report, a caption also has its scores by name;
   report is {table, scores}: rows of texts, and [name, label, whether higher is better] of each score of a caption. On a
   page of captions it is null. failed are [name, reason] of photos without a caption. */
(() => {
  "use strict";
  const { title, photos, full, cards, report, failed } = JSON.parse(document.getElementById("sat-data").textContent);
  const main = document.getElementById("sat-main"), make = SatCaptions.make;
  const PORTION = 60; // photos of the index that are drawn at a time
  const SCORES = report?.scores ?? []; // of a caption: key, label, whether higher is better

  for (const photo of photos)
    for (const caption of photo.captions)
      Object.assign(caption, { image: photo.image, size: photo.size ?? caption.size ?? caption.visible_box?.slice(2), source: photo.name });
  const every = (test) => photos.every((photo) => photo.captions.every(test));
  const [score, scoreName, higher] = SCORES.find(([key]) => every((caption) => caption[key] != null)) ?? [null, ""];
  const judged = photos.some((photo) => photo.captions.some((caption) => caption.confidence != null));
  const names = photos.length ? photos[0].captions.map((caption) => caption.settings.model) : [];
  const two = names.length > 1 && photos.every((photo) => photo.captions.length === names.length); // models side by side
  const tell = (value) => (value == null ? "–" : value.toFixed(1).replace("-", "−"));
  const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;

  // The scores of a report

  const scores = () => make("section", { "aria-label": "Scores" },
    make("div", { class: "sat-wide" }, make("table", { class: "sat-scores" },
      report.table.map((row, at) => make("tr", {}, row.map((cell, column) => make(at && column ? "td" : "th", {}, cell)))))),
    make("p", { class: "sat-about" },
      "BLEU is over all captions together. Without its brevity penalty, as the paper gives it, it flatters short captions."));

  // A photo of the index

  const tile = (photo, list) => SatCaptions.tile(photo.image, "photo not found",
    photo.captions.map((caption) => SatCaptions.line(caption, remark(photo, caption))), () => open(photo, list()));

  /** What stands below a caption: whose it is, and how good. */
  function remark(photo, caption) {
    const goodness = score ? `${scoreName} ${tell(caption[score])}` : caption.confidence != null && SatCaptions.expected(caption.confidence);
    return [two ? caption.settings.model : report ? null : photo.name, goodness].filter(Boolean).join(" · ");
  }

  // A photo in full

  const dialog = make("dialog", { class: "sat-dialog", "aria-label": "One photo", onclose: leave,
    onclick: (event) => event.target === dialog && dialog.close() });
  let shown = null;

  function leave() {
    shown?.destroy();
    shown = null;
  }

  function open(photo, list) {
    leave();
    const at = list.indexOf(photo), body = make("div", {});
    const step = (label, sign, by) => make("button", { type: "button", "aria-label": label, disabled: !list[at + by],
      onclick: () => { open(list[at + by], list); refocus(label); } }, sign);
    dialog.replaceChildren(
      make("header", {}, make("b", { dir: "auto" }, photo.name), make("span", {}, `${at + 1} of ${list.length}`),
        step("Previous photo", "←", -1), step("Next photo", "→", 1),
        make("button", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
      body);
    if (report) dialog.append(
      make("h3", {}, photo.references.length ? "References" : "There are no references."),
      make("ul", { class: "sat-references" }, photo.references.map((text) => make("li", { dir: "auto" }, text))));
    shown = SatCaptions.mount(body, photo.captions.map((caption) => ({
      ...caption,
      note: SCORES.slice(0, 2).filter(([key]) => caption[key] != null).map(([key, name]) => `${name} ${tell(caption[key])}`).join(" · "),
    })), { cards });
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  /** The same step once more, for who steps by the keyboard; at the list's end, the way out. */
  function refocus(label) {
    const button = dialog.querySelector(`[aria-label="${label}"]`);
    (button.disabled ? dialog.querySelector('[aria-label="Close"]') : button).focus();
  }

  // Searching and sorting

  const field = (label, ...inputs) => make("label", { class: "sat-field" }, make("span", {}, label), inputs);
  const select = (name, options) => make("select", { name }, options.map(([value, text]) => make("option", { value }, text)));
  const whose = () => Number(form.elements.model?.value ?? 0);
  const chosen = (photo) => photo.captions[whose()];
  const by = (value) => (a, b) => value(a) - value(b);
  const scored = (caption) => caption[score] * (higher ? 1 : -1);
  const ORDERS = {
    ...(score && { "worst first": by((photo) => scored(chosen(photo))), "best first": by((photo) => -scored(chosen(photo))) }),
    ...(two && score && {
      [`models furthest apart in ${scoreName}`]: by(({ captions }) => -Math.abs(captions[0][score] - captions[1][score])),
    }),
    [report ? "as in the file" : "as given"]: () => 0,
    ...(judged && {
      "least trusted first": by((photo) => chosen(photo).confidence ?? 2),
      "most trusted first": by((photo) => -(chosen(photo).confidence ?? -1)),
    }),
    "by the photos’ names": (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
  };

  const form = make("form", { class: "sat-filter", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => filter() },
    two && field("Model", select("model", names.map((name, index) => [index, name]))),
    field("Search", make("input", { type: "search", name: "search", placeholder: "words, or a photo’s name", autocomplete: "off" })),
    field("Order", select("order", Object.keys(ORDERS).map((name) => [name, name]))));

  const gallery = make("div", { class: "sat-gallery" });
  const found = make("p", { class: "sat-about", role: "status" });
  const end = make("p", { class: "sat-end", "aria-hidden": "true" });
  const tiles = new Map();
  let list = photos;

  function filter() {
    const sought = form.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (photo) => `${chosen(photo).caption} ${photo.name}`.toLowerCase();
    list = photos.filter((photo) => sought.every((word) => text(photo).includes(word)))
      .sort(ORDERS[form.elements.order.value]);
    found.textContent = list.length === photos.length ? `All ${count(photos.length, "photo")}.` : `${count(list.length, "photo")} of ${photos.length.toLocaleString("en")}.`;
    gallery.replaceChildren();
    more();
  }

  /** Draw the next photos of the list; whoever scrolls towards its end gets more. */
  function more() {
    const drawn = gallery.childElementCount, next = list.slice(drawn, drawn + PORTION);
    for (const photo of next) if (!tiles.has(photo)) tiles.set(photo, tile(photo, () => list));
    gallery.append(...next.map((photo) => tiles.get(photo)));
    reached.unobserve(end);
    if (drawn + next.length < list.length) reached.observe(end); // it answers at once, should the end still be near
  }

  const reached = new IntersectionObserver((entries) => { if (entries.some((one) => one.isIntersecting)) more(); }, { rootMargin: "1000px" });

  // The page

  main.append(make("header", { class: "sat-header" }, make("h1", { dir: "auto" }, title)));
  if (full) {
    SatCaptions.mount(main, photos.flatMap((photo) => photo.captions), { cards });
  } else {
    main.append(
      report ? scores() : "",
      make("section", {}, report ? make("h2", { class: "sat-heading" }, "All photos") : "",
        make("p", { class: "sat-about" }, "Open a photo to see what in it supported each word.",
          ...(judged ? [" ", make("u", {}, "Dotted"), " words are doubted, not always wrong."] : [])),
        form, found, gallery, end),
      dialog);
    filter();
  }
  if (failed.length) main.append(make("section", { class: "sat-notice", "aria-label": "Photos without a caption" },
    `${count(failed.length, "photo")} without a caption:`,
    make("ul", {}, failed.map(([name, reason]) => make("li", {}, make("bdi", {}, name), `: ${reason}`)))));
})();
