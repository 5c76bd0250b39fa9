/* A review without a server of its own, of photos that are chosen on the page: it answers what `sat review` answers.

   What is decided is kept in this browser, by the photo's name and size, until the table is downloaded, and after it. */

const CHECK = 0.5; // a word of less confidence is to be checked
const DRAW = 20; // photos to draw at random
const JUDGED = 3, TRUST = 5; // judged words of a caption, and what the confidence counts, as in stopping.py
const OTHERS = 9; // further captions of the beam, one for each key
const THUMBNAIL = 480, LARGE = 1600; // pixels of the longer side of a photo in the grid, and in hand
const COLUMNS = ["source", "caption", "confidence", "to_check", "reviewed", "model_caption"]; // of every table
const FORMULA = /^[=+@-]/; // what a spreadsheet would compute; see GUARDS in tables.py
const FULL = "This browser keeps nothing more: save the table before you close the page.";
const NOTHING = { caption: "", reviewed: "", alt_text: "", decorative: "", drawn: "" };

const collator = new Intl.Collator("en", { numeric: true });
const oneLine = (text) => text.trim().split(/\s+/u).join(" ");
const trust = (row) => row.confidence ?? 0.5;
const wrong = (row) => 1 - trust(row) ** JUDGED;
const counted = (number, thing) => `${number.toLocaleString()} ${thing}${number === 1 ? "" : "s"}`;

/** Orders of rows; what is reviewed comes after what is not, and what has no caption last. */
const later = (row) => [Boolean(row.error), !row.decided.caption, Boolean(row.decided.reviewed)];
const SORTS = {
  doubt: (row) => [...later(row), trust(row)],
  chance: (row) => [...later(row), row.chance],
  name: () => [],
};

const STATES = {
  "to review": (row) => !row.decided.reviewed && !row.error,
  drawn: (row) => row.decided.drawn,
  "not captioned": (row) => row.error,
};

/** What becomes of a row, by what is done; see deciding.py. */
const ACTIONS = {
  accept({ decided }, { how = "accepted" }) {
    if (!decided.caption) throw new Error("There is no caption to accept: write one (E).");
    const kept = ["written", "edited"].includes(decided.reviewed); // a caption of a person, who looks at it again
    return { ...decided, reviewed: kept ? decided.reviewed : how };
  },
  write({ decided, model_caption: made }, { text }) {
    const caption = oneLine(text);
    if (!caption) throw new Error("A caption needs a word: write one, or leave the photo out (X).");
    const own = !made || decided.reviewed === "written";
    return { ...decided, caption, reviewed: own ? "written" : caption === made ? "accepted" : "edited" };
  },
  "leave out": ({ decided }) => ({ ...decided, reviewed: decided.reviewed === "left out" ? "" : "left out" }),
  describe: ({ decided }, { text, decorative }) =>
    ({ ...decided, alt_text: decorative ? "" : oneLine(text), decorative: decorative ? "yes" : "" }),
  replace({ decided }, { old, by }) {
    const plain = oneLine(old).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const word = new RegExp(`(?<![\\p{L}\\p{N}_])${plain}(?![\\p{L}\\p{N}_])`, "giu");
    const caption = oneLine(decided.caption.replace(word, () => by));
    if (!caption || caption === decided.caption) return decided;
    return { ...decided, caption, reviewed: decided.reviewed === "accepted" ? "edited" : decided.reviewed };
  },
};

export class Here {
  rows = [];
  #waiting = new Set(); // rows without a caption, in their order
  #inView = []; // these are captioned first
  #history = []; // what was decided: {label, changes: [[row, before, after], …]}
  #version = 0;
  #wake = () => {};
  full = false; // whether the browser keeps nothing more
  #leftOut = new Set(); // names of the files last chosen that are no photos, or of no new name
  #busy = 0; // photos that are being captioned
  #inHand = null; // the row whose photo is shown large
  #large = Promise.resolve(""); // its address

  /** `caption(file, name)` promises a caption as `Caption.to_dict` gives it; so many are asked for `atOnce`. `save(blob, name)`
      saves a file, `model()` is the name of what captions, and `note` is said as long as there are no photos. */
  constructor({ caption, atOnce = 1, save, model, note }) {
    Object.assign(this, { caption, atOnce, save, model, note });
    for (const input of document.querySelectorAll('[data-only="here"] input[type="file"]')) input.onchange = () => {
      this.add(input.files);
      input.value = ""; // the same photo can be chosen again
      input.blur(); // keys are for the grid
    };
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
  }

  /** Take photos. Those that are there already are left alone, or tried again if they have no caption. */
  add(files) {
    const known = new Map(this.rows.map((row) => [row.name, row]));
    this.#leftOut.clear();
    for (const file of [...files].sort((a, b) => collator.compare(nameOf(a), nameOf(b)))) {
      const name = nameOf(file), key = `review ${name} ${file.size}`;
      const row = known.get(name) ?? { id: this.rows.length, name, key, decided: kept(key) ?? NOTHING, chance: Math.random() };
      if (!file.type.startsWith("image/")) this.#leftOut.add(name);
      else if (!known.has(name) || row.error) {
        this.rows[row.id] = row;
        known.set(name, row);
        this.#waiting.add(Object.assign(row, { file, key, error: "", thumbnail: null }));
      } else if (row.key !== key) this.#leftOut.add(`another ${name} (photos are told apart by name)`);
    }
    this.#changed();
    this.#pump();
  }

  /** The answer to what the page asks, as of answers.py; throws an error that a person may read. */
  async ask(question, asked) {
    return this[`_${question}`](asked);
  }

  /** The address of a photo: as a `thumbnail`, or large, one after the other and only for the row in hand. */
  async image(kind, id) {
    const row = this.rows[id];
    const small = async (pixels) => URL.createObjectURL((await SatPhotos.shrink(row.file, pixels)).blob);
    if (kind === "thumbnail") return row.thumbnail ??= small(THUMBNAIL);
    this.#inHand = row;
    const large = this.#large.then((old) => {
      if (row !== this.#inHand) return old;
      URL.revokeObjectURL(old);
      return small(LARGE);
    });
    this.#large = large.catch(() => "");
    return large;
  }

  // Looking

  async _state({ since }) {
    if (since === this.#version) await new Promise((done) => { this.#wake = done; });
    return {
      version: this.#version, sentence: this.#forecast(), captioning: this.#waiting.size + this.#busy, photos: this.rows.length,
      model: this.model(), problem: this.full ? FULL : "", left_out: this.#note(), taught: "", folder: "", conflicts: 0, compare: false,
    };
  }

  #note() {
    const [...names] = this.#leftOut, more = names.length > 3 ? ", …" : "";
    return names.length ? `${counted(names.length, "file")} left out: ${names.slice(0, 3).join(", ")}${more}` : this.rows.length ? "" : this.note;
  }

  _order(view) {
    const folders = new Set(this.rows.map(({ name }) => name.slice(0, Math.max(0, name.lastIndexOf("/")))));
    return { ids: this.#shown(view).map((row) => row.id), folders: [...folders].sort() };
  }

  _rows({ ids }) {
    this.#inView = ids.map((id) => this.rows[id]);
    return this.#inView.map(tell);
  }

  #shown({ sort = "doubt", folder = "", state = "", word = "" }) {
    const words = word.toLowerCase().split(/\s+/u).filter(Boolean);
    const rows = this.rows.filter((row) =>
      (!folder || row.name.startsWith(`${folder}/`))
      && words.every((each) => ` ${row.decided.caption.toLowerCase()}`.includes(` ${each}`))
      && (!state || row.decided.reviewed === state || STATES[state]?.(row)));
    const keys = new Map(rows.map((row) => [row, SORTS[sort](row)]));
    return rows.sort((a, b) => compare(keys.get(a), keys.get(b)) || collator.compare(a.name, b.name));
  }

  /** How many captions of the rest are probably wrong, as stopping.py says it. */
  #forecast() {
    const there = this.rows.filter(({ decided }) => decided.reviewed || decided.caption);
    const done = there.filter(({ decided }) => decided.reviewed);
    const said = `${done.length.toLocaleString()} of ${there.length.toLocaleString()} reviewed.`;
    if (done.length === there.length) return this.rows.length ? said : "Choose photos, or a folder of them.";
    const checked = done.filter((row) => row.decided.drawn && row.model_caption && /^(accepted|edited)$/.test(row.decided.reviewed));
    const changed = checked.filter((row) => row.decided.caption !== row.model_caption).length;
    const total = (rows) => rows.reduce((sum, row) => sum + wrong(row), 0);
    const rest = total(there.filter(({ decided }) => !decided.reviewed)) * ((TRUST + changed) / (TRUST + total(checked)));
    const about = `${said} About ${Math.round(Math.min(rest, there.length - done.length))} of the rest are probably wrong`;
    if (checked.length >= DRAW) return `${about}, by the confidence and by ${checked.length} drawn at random.`;
    return `${about}; check ${Math.min(DRAW - checked.length, there.length - done.length)} drawn at random.`;
  }

  // Deciding

  _decide({ id, action, ...more }) {
    const row = this.rows[id], decided = ACTIONS[action](row, more);
    this.#decide(`${row.name}: ${decided.reviewed || action}`, [[row, row.decided, decided]]);
    return tell(row);
  }

  _undo() {
    const { label, changes } = this.#history.pop() ?? { label: "", changes: [] };
    for (const [row, before] of changes) this.#set(row, before);
    this.#changed();
    return { label, ids: changes.map(([row]) => row.id) };
  }

  _accept({ tried, ...view }) {
    const decided = (row) => (row.decided.caption && !row.decided.reviewed
      ? ACTIONS.accept(row, { how: "accepted in bulk" }) : row.decided);
    return this.#together("accepted in bulk", decided, tried, view);
  }

  _replace({ old, new: by, tried, ...view }) {
    return this.#together(`${old} → ${by}`, (row) => ACTIONS.replace(row, { old, by }), tried, view);
  }

  _draw() {
    const left = this.rows.filter((row) => !row.decided.reviewed && !row.error).map((row) => [Math.random(), row]);
    const drawn = left.sort(([a], [b]) => a - b).slice(0, DRAW).map(([, row]) => [row, row.decided, { ...row.decided, drawn: "yes" }]);
    if (!drawn.length) throw new Error("There is no photo to draw that nobody has reviewed.");
    this.#decide(`${counted(drawn.length, "photo")} drawn`, drawn);
    return { number: drawn.length };
  }

  _save() {
    this.save(new Blob(["\ufeff", table(this.rows)], { type: "text/csv" }), "captions.csv");
    return { message: `captions.csv has ${counted(this.rows.length, "photo")}. Put it into their folder for sat review or sat train.` };
  }

  #together(label, decide, tried, view) {
    const all = this.#shown(view).map((row) => [row, row.decided, decide(row)]);
    const changes = all.filter(([, before, after]) => before !== after);
    const whole = `${label}: ${counted(changes.length, "caption")}`;
    if (!tried) this.#decide(whole, changes);
    return { label: whole, number: changes.length, captions: changes.slice(0, 3).map(([, , after]) => after.caption) };
  }

  #decide(label, changes) {
    for (const [row, , after] of changes) this.#set(row, after);
    if (changes.length) this.#history.push({ label, changes });
    this.#changed();
  }

  #set(row, decided) {
    row.decided = { ...decided, caption: decided.caption || row.model_caption || "" }; // which came after the decision
    try {
      localStorage.setItem(row.key, JSON.stringify(row.decided));
    } catch {
      this.full = true;
    }
  }

  #changed() {
    this.#version += 1;
    this.#wake();
  }

  // Captioning

  /** Caption what waits, first what is in view. */
  async #pump() {
    if (this.#busy >= this.atOnce || !this.#waiting.size) return;
    const row = this.#inView.find((one) => this.#waiting.has(one)) ?? this.#waiting.values().next().value;
    this.#waiting.delete(row);
    this.#busy += 1;
    this.#pump();
    try {
      take(row, await this.caption(row.file, row.name));
    } catch (error) {
      row.error = error.message; // it is tried again when it is chosen again
    }
    this.#busy -= 1;
    this.#changed();
    this.#pump();
  }
}

const nameOf = (file) => (file.webkitRelativePath.replace(/^[^/]*\//, "") || file.name);

/** What was decided of a photo earlier, if this browser has kept it. */
function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null; // it may keep nothing
  }
}

function compare(one, other) {
  const at = one.findIndex((value, place) => value !== other[place]);
  return at < 0 ? 0 : Number(one[at]) - Number(other[at]);
}

/** Take what a model says of a row's photo. */
function take(row, caption) {
  row.model_caption = caption.caption;
  row.confidence = caption.confidence;
  row.doubted = caption.words.filter((_, place) => (caption.word_confidence?.[place] ?? 1) < CHECK);
  row.others = caption.alternatives.slice(0, OTHERS).map((other) => other.caption);
  if (!row.decided.caption) row.decided = { ...row.decided, caption: caption.caption };
}

/** A row as the page shows it. */
function tell({ id, name, decided, model_caption: made, confidence, doubted = [], others = [], error }) {
  const open = ["", "edited"].includes(decided.reviewed);
  const words = decided.caption.split(" ").filter(Boolean)
    .map((text) => ({ text, instead: open && doubted.includes(text.replace(/[.,;:!?]+$/, "")) ? [] : null }));
  const choices = [...new Set([...others, made])].filter((text) => text && text !== decided.caption).slice(0, OTHERS);
  return { id, name, ...decided, words, confidence, model_caption: made, error, choices: choices.map((text) => ({ text, by: "" })) };
}

/** The rows as a table in CSV, as `sat review` writes it. */
function table(rows) {
  const more = ["alt_text", "decorative", "drawn"].filter((name) => rows.some((row) => row.decided[name]));
  const columns = [...COLUMNS, ...more];
  const lines = rows.map((row) => {
    const cells = { ...row, ...row.decided, source: row.name, to_check: row.doubted?.join(", ") };
    return columns.map((name) => {
      const text = String(cells[name] ?? "");
      return `"${(FORMULA.test(text) ? (name === "source" ? "./" : " ") + text : text).replaceAll('"', '""')}"`;
    }).join(",");
  });
  return [columns.join(","), ...lines, ""].join("\n");
}
