/* A page of captions, or the report of an evaluation: a few photos in full, many as an index to search and to sort.

   The page carries {title, photos, full, cards, report, failed}. A photo is {name, image, size, references, captions}; its captions
   are what SatCaptions.mount takes, but for the image and its size. In a report, a caption also has its scores by name,
   and in `unsupported` the indices of its words that no reference has; report is {tokens, models: [{name, beam_size,
   attention_mode, scores}]}. On a page of captions it is null. failed are [name, reason] of photos without a caption. */
(() => {
  "use strict";
  const { title, photos, full, cards, report, failed } = JSON.parse(document.getElementById("sat-data").textContent);
  const main = document.getElementById("sat-main"), make = SatCaptions.make;
  const PORTION = 60; // photos of the index that are drawn at a time
  const BEST = 6, WORDS = 18; // photos in a row of a report at most, and words in its list of mistakes
  const COMPARED = {
    ptb: "PTB tokens of the raw captions", split: "the data set’s own tokens", unicode: "words by the rules of Unicode",
    characters: "scores count characters", english: "words; numbers keep their decimal points", raw: "raw references, split at spaces",
  };
  const SCORES = report?.scores ?? []; // of a caption: key, label, whether higher is better

  for (const photo of photos)
    for (const caption of photo.captions)
      Object.assign(caption, { image: photo.image, size: photo.size ?? caption.size ?? caption.visible_box?.slice(2), source: photo.name });
  const every = (test) => photos.every((photo) => photo.captions.every(test));
  const [score, scoreName, higher] = SCORES.find(([key]) => every((caption) => caption[key] != null)) ?? [null, ""];
  const likely = every((caption) => caption.log_probability != null);
  const judged = photos.some((photo) => photo.captions.some((caption) => caption.confidence != null));
  const names = photos.length ? photos[0].captions.map((caption) => caption.settings.model) : [];
  const two = names.length > 1 && photos.every((photo) => photo.captions.length === names.length); // models side by side
  const tell = (value) => (value == null ? "–" : value.toFixed(1).replace("-", "−"));
  const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;

  // The scores of a report

  function scores() {
    const models = report.models;
    const metrics = report.metrics.filter(([key]) => models.some((model) => model.scores[key] != null));
    const rows = models.flatMap((model) => ["", "_no_brevity"].map((suffix) => make("tr", {},
      !suffix && make("th", { scope: "rowgroup", rowspan: 2 }, model.name),
      make("td", { class: "sat-how" }, suffix ? "without penalty" : "with brevity penalty"),
      [1, 2, 3, 4].map((n) => make("td", {}, tell(model.scores[`bleu_${n}${suffix}`]))),
      !suffix && metrics.map(([key]) => make("td", { rowspan: 2 }, tell(model.scores[key]))))));
    const heads = ["model", "BLEU", "B-1", "B-2", "B-3", "B-4", ...metrics.map(([, name]) => name)];
    const decoded = models.filter((model) => model.beam_size)
      .map((model) => `${two ? `${model.name}: b` : "B"}eam size ${model.beam_size}, attention mode: ${model.attention_mode}.`);
    const missing = report.metrics.flatMap(([key, name]) => {
      const reason = models.map((model) => model.scores[`${key}_missing`]).find(Boolean);
      return reason ? [`No ${name}: ${reason}.`] : [];
    });
    return make("section", { "aria-label": "Scores" },
      make("div", { class: "sat-wide" }, make("table", { class: "sat-scores" },
        make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, rows))),
      make("p", { class: "sat-about" }, [
        `${count(photos.length, "photo")}, ×100, ${COMPARED[report.tokens]}.`,
        ...decoded,
        "BLEU is over all captions together. Without its brevity penalty, as the paper gives it, it flatters short captions.",
        ...missing,
      ].join(" ")));
  }

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
  const range = (name, label) => make("fieldset", { class: "sat-field" }, make("legend", {}, label),
    ["from", "to"].map((end) => make("input", { type: "number", step: "any", name: `${name}-${end}`, placeholder: end, "aria-label": `${label} ${end}` })));
  const select = (name, options) => make("select", { name }, options.map(([value, text]) => make("option", { value }, text)));
  const tick = (name, label) => make("label", { class: "sat-check" }, make("input", { type: "checkbox", name }), make("span", {}, label));

  const form = make("form", { class: "sat-filter", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => filter() },
    two && field("Model", select("model", names.map((name, index) => [index, name]))),
    field("Search", make("input", { type: "search", name: "search", placeholder: "words, or a photo’s name", autocomplete: "off" })),
    score && range("score", scoreName),
    judged && range("confidence", "Nouns right, expected share"),
    report && range("length", "Words"),
    field("Order", select("order", [
      ...(score ? [["worst", "worst first"], ["best", "best first"]] : []),
      ...(two && score ? [["apart", `models furthest apart in ${scoreName}`]] : []),
      ["given", report ? "as in the file" : "as given"],
      ...(likely ? [["likely", "most probable first"], ["unlikely", "least probable first"]] : []),
      ...(judged ? [["suspect", "least trusted first"], ["trusted", "most trusted first"]] : []),
      ["short", "shortest first"], ["long", "longest first"], ["name", "by the photos’ names"],
    ])),
    report && tick("unsupported", "only words that no reference has"),
    two && tick("differ", "only where the models differ"));

  const whose = () => Number(form.elements.model?.value ?? 0);
  const chosen = (photo) => photo.captions[whose()];
  const scored = (caption) => (score ? caption[score] : 0);
  const by = (value) => (a, b) => value(a) - value(b);
  const ORDERS = {
    worst: by((photo) => scored(chosen(photo)) * (higher ? 1 : -1)),
    best: by((photo) => scored(chosen(photo)) * (higher ? -1 : 1)),
    apart: by(({ captions }) => -Math.abs(scored(captions[0]) - scored(captions[1]))),
    given: () => 0,
    likely: by((photo) => -chosen(photo).log_probability),
    unlikely: by((photo) => chosen(photo).log_probability),
    suspect: by((photo) => chosen(photo).confidence ?? 2),
    trusted: by((photo) => -(chosen(photo).confidence ?? -1)),
    short: by((photo) => chosen(photo).words.length),
    long: by((photo) => -chosen(photo).words.length),
    name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
  };

  /** Whether a caption has the word, or a part of the photo's name begins with it. */
  function matches(photo, words, sought) {
    return words.some((word) => word.trim().toLowerCase().split(" ").includes(sought)) || (SPACELESS.test(sought) && words.join("").includes(sought))
      || photo.name.toLowerCase().split(/[\s_.-]+/).some((part) => part.startsWith(sought)) || photo.name.toLowerCase() === sought;
  }

  const SPACELESS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
  const gallery = make("div", { class: "sat-gallery" });
  const found = make("p", { class: "sat-about", role: "status" });
  const end = make("p", { class: "sat-end", "aria-hidden": "true" });
  const tiles = new Map();
  let list = photos;

  function filter() {
    const value = (name) => form.elements[name]?.value ?? "", on = (name) => Boolean(form.elements[name]?.checked);
    const within = (name, number) =>
      !(value(`${name}-from`) !== "" && number < Number(value(`${name}-from`))) && !(value(`${name}-to`) !== "" && number > Number(value(`${name}-to`)));
    const sought = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    list = photos.filter((photo) => {
      const caption = chosen(photo);
      const words = on("unsupported") ? caption.unsupported.map((index) => caption.words[index]) : caption.words;
      return sought.every((word) => matches(photo, words, word)) && (!on("unsupported") || words.length)
        && within("score", scored(caption)) && within("confidence", caption.confidence ?? -1) && within("length", caption.words.length)
        && !(on("differ") && new Set(photo.captions.map((one) => one.words.join(" "))).size === 1);
    }).sort(ORDERS[value("order")]);
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

  /** Best and worst captions, and the most frequent words that no reference has, of the model chosen in the form. */
  function mistakes() {
    const half = Math.floor(photos.length / 2); // so that no photo is among the best and the worst
    const sorted = (order) => [...photos].sort(ORDERS[order]).slice(0, Math.min(BEST, half));
    const row = (name, best) => make("section", {}, make("h2", { class: "sat-heading" }, name),
      make("div", { class: "sat-row" }, best.map((photo) => tile(photo, () => best))));
    const counts = new Map();
    for (const photo of photos) {
      const { words, unsupported } = chosen(photo);
      for (const word of new Set(unsupported.map((index) => words[index]))) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, WORDS);
    const seek = (word) => {
      form.elements.search.value = word;
      form.elements.unsupported.checked = true;
      filter();
      form.scrollIntoView();
      form.elements.search.focus({ preventScroll: true });
    };
    extremes.replaceChildren(...[
      score && half > 0 && row(`Best by ${scoreName}${two ? `, ${names[whose()]}` : ""}`, sorted("best")),
      score && half > 0 && row(`Worst by ${scoreName}${two ? `, ${names[whose()]}` : ""}`, sorted("worst")),
      most.length && make("section", {}, make("h2", { class: "sat-heading" }, "Most frequent words that no reference has"),
        make("p", { class: "sat-frequent" }, most.map(([word, times]) =>
          make("button", { type: "button", onclick: () => seek(word) }, make("bdi", {}, word), make("small", {}, ` ${times}`))))),
    ].filter(Boolean));
  }

  const extremes = make("div", {});

  // The page

  function reportOnTop() {
    const silent = every((caption) => !caption.attention);
    form.elements.model?.addEventListener("change", mistakes);
    mistakes();
    return [
      scores(),
      silent ? make("p", { class: "sat-notice" }, "This evaluation has no attention; sat evaluate --attention keeps it.") : "",
      extremes,
    ];
  }

  main.append(make("header", { class: "sat-header" }, make("h1", { dir: "auto" }, title), SatCaptions.themeButton()));
  if (full) {
    SatCaptions.mount(main, photos.flatMap((photo) => photo.captions), { cards });
  } else {
    main.append(
      ...(report ? reportOnTop() : []),
      make("section", {}, report ? make("h2", { class: "sat-heading" }, "All photos") : "",
        make("p", { class: "sat-about" }, "Open a photo to see what in it supported each word.",
          ...(judged ? [" ", make("u", {}, "Dotted"), " words are doubted, not always wrong."] : []),
          ...(report ? [" ", make("em", {}, "Marked"), " words are in none of its references."] : [])),
        form, found, gallery, end),
      dialog);
    filter();
  }
  if (failed.length) main.append(make("section", { class: "sat-notice", "aria-label": "Photos without a caption" },
    `${count(failed.length, "photo")} without a caption:`,
    make("ul", {}, failed.map(([name, reason]) => make("li", {}, make("bdi", {}, name), `: ${reason}`)))));
})();
