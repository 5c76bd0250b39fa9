/* Captions, each with its photo: for every word, its evidence, its attention (α) and how much it relied on the photo (β).

   SatCaptions.mount(element, captions, {cards, hide}) draws captions and returns {destroy()}. A caption is what
   Caption.to_dict() gives, with two more entries: image (a data: or blob: URL, or null), and size ([width, height] of
   the photo, in whose pixels visible_box is). Its offset says how far below and to the right of its cell a location
   looks, in cells; without one, it looks at its cell. A caption may have a note, which stands below it. Captions of one image
   stand side by side. cards are the texts of the models' cards by model name. Text from outside is only ever made into
   text nodes. tile and line make small ones, for many photos.

   What came out when a word's place was hidden, as hide.js takes it, is in a caption's entry hidden, a list. With
   hide(caption, {step, mask}), whose promise gives such an answer, every word and every painted place can be hidden;
   step is the number of a word or null, mask one of runs or null. */
(() => {
  "use strict";

  const SIGMA = 20 / 224; // of the Gaussian, in sides of what the encoder sees; the authors' 20 pixels of 224
  const DIMMEST = 1e-3; // the brightest evidence is at least this, in nats at a location, so that noise is not white
  const DOUBT = 0.01; // evidence is drawn as the growth of a word's log-odds: that of log p by 1 − p, at least this
  const POWER = 2 / 3; // of a value's share of the largest: a few places have most of the evidence, and others show too
  const DARK = 0.1; // of the caption's largest evidence: a word that has less everywhere has no place in the photo
  const PLACE = 0.5; // of the map's largest value: a word's place is the largest connected part that is brighter
  const FLAT = 4; // the brightest attention is at least this many times the average, so that a flat map looks flat
  const RELIED = 0.5; // and it is the peak among words whose β is at least this share of the largest
  const CELLS = 112; // side of a smoothed map, which the browser then stretches over the photo
  const FADE = 180; // milliseconds from one word's map to the next's
  const PACE = 900; // milliseconds that a word stays when a caption is played
  const CHECK = 0.5; // a word of less confidence is dotted
  const FEWEST = 24; // pixels of a photo's shorter side
  let mounts = 0;

  /** An element with attributes, listeners (onclick and the like, functions) and children; what is falsy is left out. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value != null) element.setAttribute(name, value);
    }
    element.append(...children.flat().filter(Boolean));
    return element;
  }

  // Maps

  /** The standard normal distribution below z, to 1e-7 (Abramowitz and Stegun 7.1.26). */
  function normal(z) {
    const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + 0.3275911 * x);
    const series = 0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)));
    const tail = 0.5 * t * series * Math.exp(-x * x);
    return z > 0 ? 1 - tail : tail;
  }

  const spreads = new Map();
  /** How much of each location a cell shows along one side (CELLS × locations), by the Gaussian over its width. */
  function spread(locations, offset) {
    const key = `${locations} ${offset}`;
    if (!spreads.has(key)) {
      const edge = (number) => (number && number < locations ? (number + offset) / locations : number / locations);
      const weights = [];
      for (let cell = 0; cell < CELLS; cell++) {
        const at = (cell + 0.5) / CELLS;
        const row = Array.from({ length: locations }, (_, location) => {
          let weight = 0; // beyond its borders the map is continued by its mirror image
          for (const mirrored of [-at, at, 2 - at])
            weight += normal((edge(location + 1) - mirrored) / SIGMA) - normal((edge(location) - mirrored) / SIGMA);
          return weight;
        });
        const total = row.reduce((sum, weight) => sum + weight, 0);
        weights.push(row.map((weight) => weight / total));
      }
      spreads.set(key, weights);
    }
    return spreads.get(key);
  }

  /** One word's α (rows × columns, flat), upsampled and smoothed over what the encoder saw (CELLS × CELLS, flat). */
  function smooth(alpha, rows, columns, offset = [0, 0]) {
    const down = spread(rows, offset[0]), across = spread(columns, offset[1]), laid = new Float32Array(CELLS * CELLS);
    for (let y = 0; y < CELLS; y++) {
      const line = new Float64Array(columns);
      for (let row = 0; row < rows; row++)
        for (let column = 0; column < columns; column++) line[column] += down[y][row] * alpha[row * columns + column];
      for (let x = 0; x < CELLS; x++) {
        let sum = 0;
        for (let column = 0; column < columns; column++) sum += across[x][column] * line[column];
        laid[y * CELLS + x] = sum;
      }
    }
    return laid;
  }

  /** The maps of all words, from nested lists or packed: {rows, columns, peaks, sums, data}, a byte a location in 255ths of the peak. */
  function unpack(attention) {
    if (!attention || !(attention.data ? attention.peaks : attention).length) return null;
    if (!attention.data) {
      const words = attention.map((map) => Float32Array.from(map.flat()));
      return { rows: attention[0].length, columns: attention[0][0].length, words };
    }
    const { rows, columns, peaks, sums } = attention;
    const bytes = Uint8Array.from(atob(attention.data), (letter) => letter.charCodeAt(0));
    const words = peaks.map((peak, word) =>
      Float32Array.from(bytes.subarray(word * rows * columns, (word + 1) * rows * columns), (b) => (b / 255) * peak));
    return { rows, columns, sums, words };
  }

  /** The middle [x, y], from 0 to 1, of the largest connected bright part of a smoothed map, as maps.py has it. */
  function place(laid) {
    const bright = PLACE * peakOf(laid), open = laid.map((value) => (value > bright ? 1 : 0));
    let best = 0, middle = [0.5, 0.5];
    for (let start = 0; start < open.length; start++) {
      if (!open[start]) continue;
      open[start] = 0;
      let [light, across, down] = [0, 0, 0];
      for (const cells = [start]; cells.length;) {
        const cell = cells.pop(), x = cell % CELLS, y = Math.floor(cell / CELLS);
        light += laid[cell];
        across += laid[cell] * (x + 0.5);
        down += laid[cell] * (y + 0.5);
        for (const [next, inside] of [[cell - 1, x > 0], [cell + 1, x < CELLS - 1], [cell - CELLS, y > 0], [cell + CELLS, y < CELLS - 1]])
          if (inside && open[next]) {
            open[next] = 0;
            cells.push(next);
          }
      }
      if (light > best) [best, middle] = [light, [across / light / CELLS, down / light / CELLS]];
    }
    return middle;
  }

  /** What is drawn of a caption: its evidence where that is to be shown and there is some, else its α; null for neither. */
  function drawing(caption, shown) {
    const evidence = shown === "evidence" ? unpack(caption.evidence) : null, maps = evidence || unpack(caption.attention);
    if (!maps) return null;
    const { rows, columns } = maps, { gate, locations } = caption, uniform = 1 / (rows * columns), [down, right] = caption.offset || [0, 0];
    const doubt = (word) => Math.max(DOUBT, 1 - (certainty(caption, word) ?? 0));
    const values = evidence ? maps.words.map((map, word) => map.map((value) => Math.max(0, value) / doubt(word))) : maps.words;
    const laid = values.map((word) => smooth(word, rows, columns, [down, right])), peaks = laid.map(peakOf);
    const least = gate && !evidence ? RELIED * Math.max(...gate) : 0;
    const relied = peaks.filter((_, word) => !least || gate[word] >= least);
    const white = Math.max(evidence ? DIMMEST : FLAT * uniform, ...relied);
    const [left, top, across, high] = visibleBox(caption);
    return {
      evident: Boolean(evidence), rows, columns, peaks, white, uniform,
      /** The strength, 0 to 1, of every cell for a word. */
      strength: (word) => laid[word].map((value) => Math.min(1, value / white) ** (evidence ? POWER : 1)),
      /** The brightest place of a word beside the brightest of the caption, 0 to 1. */
      share: (word) => Math.min(1, peaks[word] / white),
      /** The sum of a word's evidence, in nats. */
      sum: (word) => (maps.sums ? maps.sums[word] : values[word].reduce((sum, value) => sum + value, 0) * doubt(word)),
      peak: (word) => peakOf(values[word]),
      /** Where in the photo a word's map is, in words; null for hardly any evidence. */
      where(word) {
        if (evidence && peaks[word] < DARK * white) return null;
        const at = evidence || !locations ? null : locations[word];
        const [x, y] = at ? [(at[1] + 0.5 + right) / columns, (at[0] + 0.5 + down) / rows] : place(laid[word]);
        return region(left + x * (across - left), top + y * (high - top));
      },
    };
  }

  /** The probability that the model gave to a word, or null. */
  function certainty(caption, word) {
    const likely = caption.word_log_probabilities?.[word];
    return likely == null ? null : Math.exp(likely);
  }

  /** Whether a word is to be checked: it is more probably wrong than right. */
  function doubted(caption, word) {
    return (caption.word_confidence?.[word] ?? 1) < CHECK;
  }

  /** What the encoder saw of a caption's photo: left, top, right and bottom, in sides of the photo. */
  function visibleBox({ size, visible_box: box }) {
    const [width, height] = size || [1, 1];
    return box ? [box[0] / width, box[1] / height, box[2] / width, box[3] / height] : [0, 0, 1, 1];
  }

  /** Where in the photo a point is, in words; x and y from 0 to 1. */
  function region(x, y) {
    const vertical = y < 1 / 3 ? "upper" : y > 2 / 3 ? "lower" : "";
    const horizontal = x < 1 / 3 ? "left" : x > 2 / 3 ? "right" : "";
    if (!vertical && !horizontal) return "centre";
    return vertical ? `${vertical} ${horizontal || "middle"}` : horizontal;
  }

  /** Color and opacity [red, green, blue, alpha 0 to 255] laid over the photo where the strength is 0 to 1. */
  function light(strength) {
    // dark for none, the photo itself half way, whitened for the most
    return strength < 0.5 ? [10, 10, 14, 204 * (1 - 2 * strength)] : [255, 255, 255, 153 * (2 * strength - 1)];
  }

  // One caption

  /** What stands behind its summary until it is opened. */
  const more = (summary, ...children) => make("details", { class: "sat-more" }, make("summary", {}, summary), children);

  /** The photo, the words and the alternatives of one caption; `view` holds what is shown of all. */
  function panel(caption, view, cards) {
    const [width, height] = caption.size || [1, 1];
    const box = visibleBox(caption);
    const cropped = box[0] > 0.002 || box[1] > 0.002 || box[2] < 0.998 || box[3] < 0.998;
    const made = {}; // what is drawn of evidence and of attention, each once it is needed
    const maps = () => (made[view.shown] ??= drawing(caption, view.shown));
    const offset = caption.offset || [0, 0];
    const words = caption.words, gate = caption.gate, locations = caption.locations;
    const settings = caption.settings || {}, model = settings.model || "";
    const pieces = settings.tokenizer === "unigram"; // parts of words, without spaces between
    const drawn = { strength: new Float32Array(CELLS * CELLS), level: 0 }; // what lies over the photo
    let pinned = null, current = null, frame = 0, asked = 0, timer = 0, endPainting = null;

    const canvas = make("canvas", { "aria-hidden": "true" });
    const image = caption.image && make("img", { src: caption.image, alt: caption.caption, draggable: "false" });
    const photo = make("div", { class: "sat-photo", onclick: plainly }, image, canvas);
    const readout = make("p", { class: "sat-readout" }), outcome = make("div", { class: "sat-outcome" });
    const playing = make("button", { type: "button", onclick: () => (timer ? rest() : play()) }, "Play");
    const hideThis = make("button", { type: "button", onclick: () => hide({ step: pinned, mask: null }) }, "Hide this");
    const painting = view.hide && make("button", { type: "button", "aria-pressed": "false", onclick: paintPlace }, "Paint");
    const acts = words.length && image && make("div", { class: "sat-steps" }, maps() && playing,
      (view.hide || caption.hidden?.length) && hideThis, painting, SatHide.copier(portrait));
    const scale = maps() && make("p", { class: "sat-scale" }, make("span", { class: "sat-ramp" }), make("span"));
    const buttons = words.map((word, index) => {
      const bar = make("span", { class: "sat-beta", "aria-hidden": "true" }, make("span"));
      return make(
        "button",
        {
          type: "button", class: doubted(caption, index) ? "sat-word sat-low" : "sat-word", tabindex: index ? "-1" : "0", "aria-pressed": "false",
          onpointerenter: (event) => event.pointerType === "mouse" && show(index),
          onfocus: () => { rest(); pin(index); }, onclick: () => pin(index),
        },
        make("span", {}, word), bar, make("span", { class: "sat-hidden" }),
      );
    });
    const sentence = make(
      "div",
      {
        class: pieces ? "sat-words sat-pieces" : "sat-words", role: "group", dir: "auto", "aria-label": "The caption, word by word; move with the arrow keys",
        onpointerleave: () => show(pinned), onkeydown: travel,
      },
      buttons,
      caption.complete === false && make("span", { class: "sat-truncated" }, "… truncated at the maximum length"),
      !words.length && make("span", { class: "sat-truncated" }, "no word"),
    );
    const element = make(
      "article", { class: width < height ? "sat-caption sat-tall" : "sat-caption", "aria-label": caption.caption, onkeydown: escape },
      photo,
      make("div", { class: "sat-text" },
        make("p", { class: "sat-model" }, model), sentence, readout, acts, scale, facts(), others(), details(), card()),
      outcome,
    );
    element.style.setProperty("--ratio", Math.min(4, Math.max(0.25, width / height)));

    /** What a word's evidence or attention says, in words. */
    function story(index) {
      const parts = [], all = maps(), where = all?.where(index);
      if (all?.evident) {
        const sure = certainty(caption, index) ?? 0, strong = percent(all.share(index));
        if (all.share(index) === 1) parts.push(`the strongest evidence of the caption, at the ${where}`);
        else if (where) parts.push(`evidence at the ${where}, ${strong} of the strongest`);
        else parts.push(`hardly any evidence in the photo, ${strong} of the strongest`, sure > 0.5
          ? `the words before it lead to it (${percent(sure)}), and a certain word needs none` : "no place in the photo decides it");
      } else if (all) {
        const peak = all.peak(index);
        if (locations) parts.push(`attention at one location, the ${where}`);
        else parts.push(peak < 2 * all.uniform ? "attention nearly uniform" : `most attention at the ${where}`);
      }
      if (gate && !all?.evident) parts.push(`relied ${percent(gate[index])} on the photo`);
      const trust = caption.word_confidence?.[index];
      if (trust != null) parts.push(`${doubted(caption, index) ? "doubted: " : ""}confidence ${trust.toFixed(2)}`);
      return parts.join(", ") || "this model has no attention";
    }

    /** Tell the words, and draw their bars, by what is chosen to be shown. */
    function retell() {
      buttons.forEach((button, index) => {
        const all = maps(), bar = button.querySelector(".sat-beta");
        const full = all?.evident ? all.share(index) : gate?.[index];
        bar.hidden = full == null;
        bar.firstChild.style.height = `${Math.min(100, Math.max(4, 100 * full))}%`;
        button.querySelector(".sat-hidden").textContent = `: ${story(index)}`;
      });
      readout.replaceChildren(...reading());
    }

    function facts() {
      const found = [];
      if (caption.note) found.push(caption.note);
      if (caption.warning) found.push(caption.warning);
      else if (Math.min(...(caption.size ?? [FEWEST])) < FEWEST) found.push("too few pixels to see what is there: the caption is a guess");
      if (caption.confidence != null) found.push(`this caption: ${expected(caption.confidence)}`);
      if (caption.reaches_min_confidence === false) found.push(`no caption reaches ${settings.min_confidence}`);
      if (cropped) found.push("striped: not seen by the model");
      return make("p", { class: "sat-facts" }, found.join(" · "));
    }

    /** What experts ask for: the scores of the caption, and the figures of each word. */
    function details() {
      const found = [];
      if (caption.log_probability != null) found.push(`log p ${number(caption.log_probability)}`);
      if (caption.rerank_score != null) found.push(`rerank score ${caption.rerank_score.toFixed(2)}`);
      if (settings.beam_size) found.push(settings.beam_size === 1 ? "greedy search" : `beam size ${settings.beam_size}`);
      if (settings.attention_mode && caption.attention) found.push(`attention mode: ${settings.attention_mode}`);
      const seen = drawing(caption, "evidence"), looked = drawing(caption, "attention");
      const columns = [
        ["log p", caption.word_log_probabilities?.length === words.length && ((word) => number(caption.word_log_probabilities[word]))],
        ["evidence, nats", seen?.evident && ((word) => seen.sum(word).toFixed(2))],
        ["peak α", looked && ((word) => looked.peak(word).toFixed(3))],
        ["β", gate && ((word) => gate[word].toFixed(2))],
      ].filter(([, value]) => value);
      return (found.length || columns.length) && more("Details",
        make("p", { class: "sat-note" }, found.join(" · ")),
        columns.length && words.length && make("div", { class: "sat-wide" }, make("table", {},
          make("thead", {}, make("tr", {}, ["word", ...columns.map(([name]) => name)].map((name) => make("th", { scope: "col" }, name)))),
          make("tbody", {}, words.map((word, index) => make("tr", {}, make("td", {}, make("bdi", {}, word)),
            columns.map(([, value]) => make("td", {}, value(index)))))))));
    }

    function others() {
      const found = caption.alternatives || [];
      const kind = settings.num_captions ? "Diverse captions" : "The beam’s other captions";
      const row = (text, score, name) => make("li", name ? { class: name } : {},
        make("bdi", {}, text || "(no word)"), make("data", { value: score }, number(score)));
      return found.length && more([kind, make("small", {}, ` ${found.length}`)],
        make("p", { class: "sat-note" }, "Each with its log p; the chosen one first."),
        make("ol", { class: "sat-beams" }, row(caption.caption, caption.log_probability, "sat-chosen"),
          found.map((other) => row(other.caption, other.log_probability))));
    }

    function card() {
      const text = cards && Object.hasOwn(cards, model) ? cards[model] : null;
      return text && more("The model’s card", make("pre", { class: "sat-card" }, text));
    }

    // What if it were hidden?

    /** What came out when the word's own place was hidden, where it is known. */
    const answerTo = (index) => caption.hidden?.find((answer) => answer.step === index);

    async function hide(question) {
      const mine = ++asked, undo = () => { outcome.replaceChildren(); hideThis.focus(); };
      const tell = (...children) => mine === asked && outcome.replaceChildren(...children);
      tell(make("p", { class: "sat-note", role: "status" }, "The photo is captioned again …"));
      try {
        const answer = (question.mask ? null : answerTo(question.step)) ?? await view.hide(caption, question);
        if (tell(SatHide.trial(caption, answer, undo)) !== false) outcome.scrollIntoView({ block: "nearest" });
      } catch (error) {
        tell(make("p", { class: "sat-note", role: "alert" }, error.message));
      }
    }

    /** Let the next stroke on the photo hide what it covers; a second press ends that. */
    function paintPlace() {
      const stop = () => {
        endPainting();
        endPainting = null;
        photo.classList.remove("sat-painting");
        painting.setAttribute("aria-pressed", "false");
        paint();
      };
      if (endPainting) {
        stop();
        outcome.replaceChildren();
        return;
      }
      painting.setAttribute("aria-pressed", "true");
      photo.classList.add("sat-painting");
      outcome.replaceChildren(make("p", { class: "sat-note", role: "status" }, "Drag over any place of the photo to hide it."));
      photo.scrollIntoView({ block: "nearest" });
      endPainting = SatHide.painter(canvas, caption, (mask) => { stop(); hide({ step: pinned, mask }); });
    }

    /** The photo as it is shown, with the caption and what is said of the word. */
    function portrait() {
      return SatHide.sheet([{ canvas: SatHide.layers(photo, [image, canvas]), text: caption.caption }], current === null ? [] : [readout.textContent]);
    }

    /** Show word after word, to the end; from there, begin again. */
    function play() {
      if (pinned === words.length - 1) pin(null);
      const next = () => {
        pin((pinned ?? -1) + 1);
        if (pinned === words.length - 1) rest();
      };
      timer = setInterval(next, PACE);
      playing.textContent = "Pause";
      next();
    }

    function rest() {
      clearInterval(timer);
      timer = 0;
      playing.textContent = "Play";
    }

    function travel(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const at = Math.max(0, buttons.findIndex((button) => button.tabIndex === 0)), last = buttons.length - 1;
      const [forward, back] = getComputedStyle(sentence).direction === "rtl" ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
      const to = { [forward]: Math.min(at + 1, last), [back]: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
      if (to === undefined) return;
      buttons[to].focus();
      event.preventDefault();
    }

    function escape(event) {
      if (event.key !== "Escape" || (current === null && !endPainting)) return;
      event.preventDefault(); // an Escape that was spent here does not close a dialog around us
      if (endPainting) return paintPlace();
      plainly();
    }

    /** Show the photo as it is. */
    function plainly() {
      rest();
      pin(null);
    }

    /** Keep a word shown (null: none) when the pointer leaves. */
    function pin(index) {
      pinned = index;
      buttons.forEach((button, other) => {
        button.setAttribute("aria-pressed", String(other === index));
        if (index !== null) button.tabIndex = other === index ? 0 : -1;
      });
      hideThis.disabled = index === null || !(view.hide || answerTo(index));
      show(index);
    }

    function show(index) {
      current = index;
      buttons.forEach((button, other) => button.classList.toggle("sat-on", other === index));
      readout.replaceChildren(...reading());
      redraw(true);
    }

    function reading() {
      const all = maps();
      if (current !== null) {
        const other = all?.evident && caption.attention && !all.where(current);
        return [make("b", {}, make("bdi", {}, words[current])), ` ${story(current)}`,
          ...(other ? [". ", make("button", { type: "button", class: "sat-link", onclick: view.showAttention }, "Show its attention")] : [])];
      }
      if (!all) return [caption.attention === undefined ? "No attention was kept for this caption." : "This model has no attention to show."];
      if (view.shown === "evidence" && !all.evident) return ["This caption has no evidence, so attention is shown."];
      return [`Point at a word or tap it, or press Play, to see ${all.evident ? "what supported it" : "where the attention was before it"}.`];
    }

    function redraw(fading = false) {
      cancelAnimationFrame(frame);
      if (!maps()) return;
      const on = current !== null, from = drawn.strength.slice(), level = drawn.level, began = performance.now();
      const to = on ? maps().strength(current) : from;
      photo.classList.toggle("sat-lit", on);
      explainScale();
      const still = !fading || matchMedia("(prefers-reduced-motion: reduce)").matches;
      const step = (now) => {
        const t = still ? 1 : Math.min(1, Math.max(0, (now - began) / FADE));
        drawn.level = level + t * ((on ? 1 : 0) - level);
        const share = level === 0 ? 1 : t; // the first map fades in where it is
        for (let cell = 0; cell < to.length; cell++) drawn.strength[cell] = from[cell] + share * (to[cell] - from[cell]);
        paint();
        if (t < 1) frame = requestAnimationFrame(step);
      };
      step(began);
    }

    function explainScale() {
      const { evident, white, uniform } = maps(), kind = evident ? "evidence" : "attention";
      const most = evident ? "most evidence of the caption" : `most attention, ${times(white / uniform)} the average`;
      scale.lastChild.textContent = current === null ? "" : `dark: least ${kind} · white: ${most}. Click the photo or press Escape to see it plain.`;
    }

    const colors = new OffscreenCanvas(CELLS, CELLS);
    function paint() {
      const context = canvas.getContext("2d"), ratio = globalThis.devicePixelRatio || 1;
      const wide = Math.round(photo.clientWidth * ratio), high = Math.round(photo.clientHeight * ratio);
      if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
      context.clearRect(0, 0, wide, high);
      const [left, top, right, bottom] = [box[0] * wide, box[1] * high, box[2] * wide, box[3] * high];
      if (cropped) hatch(context, wide, high, [left, top, right, bottom], ratio);
      if (!drawn.level) return;
      const table = Array.from({ length: 256 }, (_, level) => light(level / 255));
      const pixels = new ImageData(CELLS, CELLS);
      drawn.strength.forEach((strength, cell) => pixels.data.set(table[Math.round(255 * strength)], 4 * cell));
      colors.getContext("2d").putImageData(pixels, 0, 0);
      context.globalAlpha = drawn.level;
      context.imageSmoothingQuality = "high";
      context.drawImage(colors, left, top, right - left, bottom - top);
      if (locations && current !== null) {
        const [row, column] = locations[current], w = (right - left) / maps().columns, h = (bottom - top) / maps().rows;
        for (const [color, thick] of [["#1c1e22", 5], ["#ff8a1f", 2.5]]) {
          context.strokeStyle = color;
          context.lineWidth = thick * ratio;
          context.strokeRect(left + (column + offset[1]) * w, top + (row + offset[0]) * h, w, h);
        }
      }
      context.globalAlpha = 1;
    }

    const resizing = new ResizeObserver(() => paint());
    resizing.observe(photo);
    retell();
    pin(null);
    return {
      element,
      restyle() {
        retell();
        redraw();
      },
      destroy() {
        rest();
        cancelAnimationFrame(frame);
        resizing.disconnect();
      },
    };
  }

  const peakOf = (values) => values.reduce((most, value) => Math.max(most, value), 0);
  const expected = (share) => `${percent(share)} of its nouns are expected to be right`;
  const percent = (share) => `${Math.round(100 * share)} %`;
  const number = (value) => value.toFixed(2).replace("-", "−");
  const times = (ratio) => `${ratio < 9.95 ? ratio.toFixed(1).replace(/\.0$/, "") : ratio.toFixed(0)} times`;

  /** Fade and hatch what the encoder did not see. */
  function hatch(context, wide, high, [left, top, right, bottom], ratio) {
    context.save();
    context.beginPath();
    context.rect(0, 0, wide, high);
    context.rect(left, top, right - left, bottom - top);
    context.clip("evenodd");
    context.fillStyle = "rgb(252 252 250 / 82%)";
    context.fillRect(0, 0, wide, high);
    context.strokeStyle = "#a9a9a4";
    context.lineWidth = 1.5 * ratio;
    context.beginPath();
    for (let x = -high; x < wide; x += 9 * ratio) {
      context.moveTo(x, high);
      context.lineTo(x + high, 0);
    }
    context.stroke();
    context.restore();
  }

  const DOTTED = " Dotted words are doubted, not always wrong: point at one for its confidence, the probability that it is right.";
  const HOW = "Point at a word, tap it, or use the arrow keys: ";
  const EVIDENCE = `${HOW}bright places supported it, and the bar below it says how strongly.`;
  const ATTENTION = `${HOW}bright places had the attention before it, and the bar below it says how much it relied on the photo.`;

  // All together

  function mount(element, captions, { cards = {}, hide = null } = {}) {
    const view = { shown: "evidence", hide }, panels = [];
    const photos = Map.groupBy(captions, ({ source, image }) => `${source}\n${image}`);
    const change = (shown) => {
      view.shown = shown;
      explain();
      panels.forEach((one) => one.restyle());
    };
    const group = `sat-shown-${mounts++}`;
    const option = (text, value) => make("label", {},
      make("input", { type: "radio", name: group, value, checked: view.shown === value, onchange: () => change(value) }), make("span", {}, text));
    view.showAttention = () => root.querySelector('input[value="attention"]').click();
    const mapped = captions.some((caption) => caption.attention), evident = captions.some((caption) => caption.evidence);
    const choice = mapped && evident && make("div", { class: "sat-choice", role: "radiogroup", "aria-label": "What is shown" },
      option("Evidence", "evidence"), option("Attention", "attention"));
    const dotted = captions.some((caption) => caption.words.some((_, word) => doubted(caption, word)));
    const about = make("p", { class: "sat-about" });
    const explain = () => {
      const kind = view.shown === "evidence" && evident ? EVIDENCE : ATTENTION;
      about.textContent = (mapped ? kind : "") + (dotted ? DOTTED : "");
    };
    explain();
    const root = make("div", { class: "sat-captions" }, choice, about);
    for (const group of photos.values()) {
      const together = group.map((caption) => panel(caption, view, cards));
      panels.push(...together);
      const title = photos.size > 1 && group[0].source && make("h2", { dir: "auto" }, group[0].source.split(/[\\/]/).pop());
      root.append(make("section", { class: "sat-group", "data-captions": Math.min(2, together.length) },
        title, make("div", { class: "sat-pair" }, together.map((one) => one.element))));
    }
    element.append(root);
    return {
      destroy() {
        panels.forEach((one) => one.destroy());
        root.remove();
      },
    };
  }

  // Many captions

  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) target.src = target.satImage;
      else target.removeAttribute("src");
    }
  }, { rootMargin: "600px" }); // only what is near the window holds a decoded photo

  /** A small photo (null: none) with lines of text below it, to be opened. */
  function tile(image, missing, lines, onclick) {
    const small = image && make("img", { alt: "", draggable: "false" });
    if (small) {
      small.satImage = image;
      near.observe(small);
    }
    return make("button", { type: "button", class: "sat-tile", onclick }, make("span", { class: "sat-thumb" }, small ?? missing), lines);
  }

  /** A caption below a small photo, doubted words dotted; and a remark. */
  function line(caption, remark) {
    const { words, settings, word_confidence: trust } = caption;
    const between = settings.tokenizer === "unigram" ? "" : " ";
    const written = words.flatMap((word, index) =>
      [index ? between : "", doubted(caption, index) ? make("u", { title: `doubted: confidence ${trust[index].toFixed(2)}` }, word) : word]);
    return make("span", { class: "sat-line" },
      make("span", { class: "sat-sentence", dir: "auto" }, words.length ? written : "(no word)"), make("small", {}, remark));
  }

  globalThis.SatCaptions = { mount, make, smooth, place, drawing, light, visibleBox, tile, line, expected };
})();
