/* The report of an evaluation: scores, best and worst captions, and a gallery to search for mistakes in. */
(() => {
  "use strict";
  const { title, tokens, models, photos, cards } = JSON.parse(document.getElementById("sat-data").textContent);
  const main = document.getElementById("sat-main"), make = SatViewer.make, two = models.length > 1;
  const KINDS = [["cider", "CIDEr"], ["meteor", "METEOR"], ["rouge_l", "ROUGE-L"], ["bleu_4_smoothed", "BLEU-4, smoothed"], ["log_probability", "log p"]];
  // what sorts captions by how good they are: the first score that every caption has
  const [score, scoreName] = KINDS.find(([key]) => photos.every((photo) => photo.told.every((told) => told[key] != null))) ?? [null, ""];
  const BEST = 6, WORDS = 18;
  const tell = (value, digits = 1) => (value == null ? "–" : value.toFixed(digits).replace("-", "−"));
  const scored = (told) => (score ? told[score] : 0);
  const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;

  // Scores

  function scores() {
    const metrics = [["meteor", "METEOR"], ["rouge_l", "ROUGE-L"], ["cider", "CIDEr"], ["spice", "SPICE"]]
      .filter(([key]) => models.some((model) => model.scores[key] != null));
    const rows = models.flatMap((model) => ["", "_no_brevity"].map((suffix) => make("tr", {},
      suffix ? null : make("th", { scope: "rowgroup", rowspan: 2 }, model.name),
      make("td", { class: "sat-how" }, suffix ? "without penalty" : "with brevity penalty"),
      [1, 2, 3, 4].map((n) => make("td", {}, tell(model.scores[`bleu_${n}${suffix}`]))),
      suffix ? null : metrics.map(([key]) => make("td", { rowspan: 2 }, tell(model.scores[key]))))));
    const heads = ["model", "BLEU", "B-1", "B-2", "B-3", "B-4", ...metrics.map(([, name]) => name)];
    const decoded = models.filter((model) => model.beam)
      .map((model) => `${two ? `${model.name}: b` : "B"}eam ${model.beam}, look by ${model.look}.`);
    const missing = ["meteor", "spice"].flatMap((key) => {
      const reason = models.map((model) => model.scores[`${key}_missing`]).find(Boolean);
      return reason ? [`No ${key.toUpperCase()}: ${reason}.`] : [];
    });
    return make("section", { "aria-label": "Scores" },
      make("div", { class: "sat-wide" }, make("table", { class: "sat-scores" },
        make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, rows))),
      make("p", { class: "sat-note" }, [
        `${count(photos.length, "photo")}, ×100, ${tokens === "ptb" ? "PTB tokens of the raw captions" : "the data set’s own tokens"}.`,
        ...decoded,
        "BLEU is over all captions together; without its brevity penalty, as the paper gives it, it flatters short captions.",
        ...missing,
      ].join(" ")));
  }

  // A photo, small

  const waiting = new IntersectionObserver((found) => {
    for (const { target, isIntersecting } of found) {
      if (isIntersecting) target.src = target.satImage;
      else target.removeAttribute("src");
    }
  }, { rootMargin: "600px" }); // only what is near the window holds a decoded photo

  function tile(photo, list) {
    const image = photo.image && make("img", { alt: "", draggable: "false" });
    if (image) {
      image.satImage = photo.image;
      waiting.observe(image);
    }
    return make("button", { type: "button", class: "sat-tile", onclick: () => open(photo, list()) },
      make("span", { class: "sat-thumb" }, image ?? "photo not found"),
      photo.told.map((told, index) => make("span", { class: "sat-said" },
        make("span", { class: "sat-sentence" }, sentence(told)),
        make("small", {}, `${two ? `${models[index].name} · ` : ""}${score ? `${scoreName} ${tell(told[score])}` : ""}`))));
  }

  /** The words of a caption; those that no reference has are marked. */
  function sentence(told) {
    if (!told.words.length) return ["(no word)"];
    return told.words.flatMap((word, index) =>
      [index ? " " : "", told.unsupported.includes(index) ? make("em", { title: "in no reference" }, word) : word]);
  }

  // A photo, whole

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
      onclick: () => { open(list[at + by], list); again(label); } }, sign);
    dialog.replaceChildren(
      make("header", {}, make("b", {}, photo.name), make("span", {}, `${at + 1} of ${list.length}`),
        step("Previous photo", "←", -1), step("Next photo", "→", 1),
        make("button", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
      body,
      make("h3", {}, photo.references.length ? "What people said" : "There are no references."),
      make("ul", { class: "sat-references" }, photo.references.map((text) => make("li", {}, text))));
    shown = SatViewer.mount(body, photo.told.map((told, index) => ({
      ...told,
      caption: told.words.join(" "),
      attention: told.attention ?? undefined,
      image: photo.image,
      size: photo.size ?? told.seen?.slice(2),
      source: photo.name,
      settings: { model: models[index].name, beam: models[index].beam, look: models[index].look },
      note: KINDS.slice(0, 2).filter(([key]) => told[key] != null).map(([key, name]) => `${name} ${tell(told[key])}`).join(" · "),
    })), { cards: Object.fromEntries(models.map((model) => [model.name, cards[model.model]])) });
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  /** The same step once more, for who steps by the keyboard; at the list's end, the way out. */
  function again(label) {
    const button = dialog.querySelector(`[aria-label="${label}"]`);
    (button.disabled ? dialog.querySelector('[aria-label="Close"]') : button).focus();
  }

  // Choosing

  const form = make("form", { class: "sat-filter", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => filter() });
  const field = (label, ...inputs) => make("label", { class: "sat-field" }, make("span", {}, label), inputs);
  const range = (name, label) => make("fieldset", { class: "sat-field" }, make("legend", {}, label),
    ["from", "to"].map((end) => make("input", { type: "number", step: "any", name: `${name}-${end}`, placeholder: end, "aria-label": `${label} ${end}` })));
  const select = (name, options) => make("select", { name }, options.map(([value, text]) => make("option", { value }, text)));
  const tick = (name, label) => make("label", { class: "sat-check" }, make("input", { type: "checkbox", name }), make("span", {}, label));

  form.append(...[
    two && field("Model", select("model", models.map((model, index) => [index, model.name]))),
    field("Says", make("input", { type: "search", name: "word", placeholder: "a word", autocomplete: "off" })),
    score && range("score", scoreName),
    range("length", "Words"),
    field("Order", select("order", [
      ...(score ? [["worst", "worst first"], ["best", "best first"]] : []),
      ...(two && score ? [["apart", `models furthest apart in ${scoreName}`]] : []),
      ["short", "shortest first"], ["long", "longest first"], ["file", "as in the file"],
    ])),
    tick("unsupported", "only words that no reference has"),
    two && tick("differ", "only where the models differ"),
  ].filter(Boolean));

  const whose = () => Number(form.elements.model?.value ?? 0);
  const gallery = make("div", { class: "sat-gallery" });
  const found = make("p", { class: "sat-note", role: "status" });
  const tiles = new Map();
  let list = photos;

  const apart = (photo) => Math.abs(scored(photo.told[0]) - scored(photo.told[1]));
  const ORDERS = {
    worst: (a, b) => scored(a.told[whose()]) - scored(b.told[whose()]),
    best: (a, b) => scored(b.told[whose()]) - scored(a.told[whose()]),
    apart: (a, b) => apart(b) - apart(a),
    short: (a, b) => a.told[whose()].words.length - b.told[whose()].words.length,
    long: (a, b) => b.told[whose()].words.length - a.told[whose()].words.length,
    file: () => 0,
  };

  function filter() {
    const value = (name) => form.elements[name]?.value ?? "", on = (name) => Boolean(form.elements[name]?.checked);
    const within = (name, number) =>
      !(value(`${name}-from`) !== "" && number < Number(value(`${name}-from`))) && !(value(`${name}-to`) !== "" && number > Number(value(`${name}-to`)));
    const sought = value("word").toLowerCase().split(/\s+/).filter(Boolean);
    list = photos.filter((photo) => {
      const told = photo.told[whose()];
      const words = on("unsupported") ? told.unsupported.map((index) => told.words[index]) : told.words;
      return sought.every((word) => words.some((said) => said.toLowerCase() === word)) && (!on("unsupported") || words.length)
        && within("score", scored(told)) && within("length", told.words.length)
        && !(on("differ") && photo.told[0].words.join(" ") === photo.told[1].words.join(" "));
    }).sort(ORDERS[value("order")]);
    found.textContent = list.length === photos.length ? `All ${count(photos.length, "photo")}.` : `${count(list.length, "photo")} of ${photos.length.toLocaleString("en")}.`;
    for (const photo of list) if (!tiles.has(photo)) tiles.set(photo, tile(photo, () => list));
    gallery.replaceChildren(...list.map((photo) => tiles.get(photo)));
  }

  /** Best and worst captions, and the words most often said for nothing, of the model chosen in the form. */
  function mistakes() {
    const sorted = (order) => [...photos].sort(ORDERS[order]).slice(0, BEST);
    const row = (name, chosen) => make("section", {}, make("h2", {}, name),
      make("div", { class: "sat-row" }, chosen.map((photo) => tile(photo, () => chosen))));
    const counts = new Map();
    for (const photo of photos) {
      const told = photo.told[whose()];
      for (const word of new Set(told.unsupported.map((index) => told.words[index]))) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, WORDS);
    const seek = (word) => {
      form.elements.word.value = word;
      form.elements.unsupported.checked = true;
      filter();
      form.scrollIntoView();
      form.elements.word.focus({ preventScroll: true });
    };
    extremes.replaceChildren(...[
      score && row(`Best by ${scoreName}${two ? `, ${models[whose()].name}` : ""}`, sorted("best")),
      score && row(`Worst by ${scoreName}${two ? `, ${models[whose()].name}` : ""}`, sorted("worst")),
      most.length && make("section", {}, make("h2", {}, "Words most often said that no reference has"),
        make("p", { class: "sat-words-said" }, most.map(([word, times]) =>
          make("button", { type: "button", onclick: () => seek(word) }, word, make("small", {}, ` ${times}`))))),
    ].filter(Boolean));
  }

  const extremes = make("div", {});
  const silent = photos.every((photo) => photo.told.every((told) => !told.attention));
  main.append(
    make("header", { class: "sat-header" }, make("h1", {}, title), SatViewer.themeButton()),
    scores(),
    silent ? make("p", { class: "sat-notice" }, "This evaluation does not say where the model looked; sat evaluate --attention keeps it.") : "",
    extremes,
    make("section", {}, make("h2", {}, "All photos"),
      make("p", { class: "sat-note" }, "Open a photo to see where each word looked. ", make("em", {}, "Marked"), " words are in none of its references."),
      form, found, gallery),
    dialog);
  form.elements.model?.addEventListener("change", mistakes);
  mistakes();
  filter();
})();
