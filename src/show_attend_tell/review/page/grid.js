/* A grid of cards of which only those in view are in the page. One card is the current one, and has the focus. */

const WIDTH = 232; // pixels of a card, at least
const HEIGHT = 292; // and of a row of cards
const SPARE = 2; // rows above and below what is in view
const GAP = 16;
const REST = 80; // milliseconds without scrolling until photos are asked for, or thousands would be passed by

/** An element with attributes and children. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export class Grid {
  ids = []; // the rows' numbers, in order
  current = 0; // the place of the current card among them
  #rows = new Map(); // what is known of rows, by number
  #old = new Set(); // the numbers of those that may have changed
  #drawn = new Map(); // the elements of lines of cards, by their place
  #columns = 1;
  #focused = false; // whether a card had the focus that is drawn again
  #resting = 0; // a timer, until scrolling rests
  #waiting = null; // a request for rows

  /** `load` promises rows by their numbers, `image` the address of a photo, and `choose` is told of the current row. */
  constructor(element, { load, image, choose }) {
    Object.assign(this, { element, load, image, choose, canvas: element.firstElementChild });
    element.addEventListener("scroll", () => this.#draw(), { passive: true });
    element.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) this.go(Number(cell.dataset.place), true);
    });
    new ResizeObserver(() => this.#lay()).observe(element);
  }

  get row() { return this.#rows.get(this.ids[this.current]); }

  /** Show rows in an order, from the first on. */
  show(ids) {
    this.ids = ids;
    this.element.scrollTop = 0;
    this.#remove(() => true);
    this.#lay();
    this.go(0);
  }

  /** Take another order of the same rows; to be `careful`, what is in view, and above it, stays where it is. */
  sort(ids, careful) {
    if (!careful) return this.show(ids);
    const last = this.#inView()[1], current = this.ids[this.current];
    const fixed = this.ids.slice(0, last * this.#columns), known = new Set(fixed);
    this.ids = fixed.concat(ids.filter((id) => !known.has(id)));
    this.current = Math.max(0, this.ids.indexOf(current));
    this.#remove((line) => line >= last);
    this.#lay();
  }

  /** Make another card the current one; it gets the focus if the grid has it, or if `focus` is true. */
  go(place, focus = this.element.contains(document.activeElement)) {
    if (!this.ids.length) return this.choose(null);
    this.current = Math.min(Math.max(0, place), this.ids.length - 1);
    const top = Math.floor(this.current / this.#columns) * HEIGHT;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || clientHeight < HEIGHT) this.element.scrollTop = top;
    else if (top + HEIGHT > scrollTop + clientHeight) this.element.scrollTop = top + HEIGHT - clientHeight;
    this.#draw();
    if (focus) this.focus();
    this.choose(this.row ?? null);
  }

  focus() { this.canvas.querySelector('[aria-selected="true"]')?.focus({ preventScroll: true }); }

  /** Move by a key; returns whether it is one that moves. */
  key(name) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / HEIGHT)) * this.#columns;
    const steps = {
      ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns,
      PageUp: -page, PageDown: page, Home: -this.ids.length, End: this.ids.length,
    };
    if (name in steps) this.go(this.current + steps[name]);
    return name in steps;
  }

  /** Take what is known now of some rows. */
  take(rows) {
    for (const row of rows) {
      this.#rows.set(row.id, row);
      this.#old.delete(row.id);
      const cell = this.canvas.querySelector(`[data-id="${row.id}"]`);
      if (cell) fill(cell, row);
    }
    if (rows.some((row) => row.id === this.ids[this.current])) this.choose(this.row);
  }

  /** Ask again for what is in view, now and when it comes into view. */
  refresh() {
    this.#old = new Set(this.#rows.keys());
    this.#ask();
  }

  #inView() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - SPARE);
    const last = Math.ceil((this.element.scrollTop + this.element.clientHeight) / HEIGHT) + SPARE;
    return [first, Math.min(last, Math.ceil(this.ids.length / this.#columns))];
  }

  /** Take lines out of the page, with the photos that are still asked for. */
  #remove(gone) {
    this.#focused ||= this.element.contains(document.activeElement);
    for (const [line, element] of this.#drawn)
      if (gone(line)) {
        for (const image of element.querySelectorAll("img")) image.removeAttribute("src");
        element.remove();
        this.#drawn.delete(line);
      }
  }

  #lay() {
    const columns = Math.max(1, Math.floor((this.canvas.clientWidth + GAP) / (WIDTH + GAP)));
    if (columns !== this.#columns) {
      this.#columns = columns;
      this.#remove(() => true);
    }
    this.canvas.style.height = `${Math.ceil(this.ids.length / columns) * HEIGHT}px`;
    this.element.setAttribute("aria-colcount", columns);
    this.element.setAttribute("aria-rowcount", Math.ceil(this.ids.length / columns));
    this.#draw();
  }

  #draw() {
    const [first, last] = this.#inView();
    const own = Math.floor(this.current / this.#columns); // stays in the page, since it may have the focus
    this.#remove((line) => (line < first || line >= last) && line !== own);
    const lines = this.ids.length ? [own] : [];
    for (let line = first; line < last; line++) lines.push(line);
    for (const line of lines) if (!this.#drawn.has(line)) this.#add(line);
    for (const cell of this.canvas.querySelectorAll(".cell")) {
      const selected = Number(cell.dataset.place) === this.current;
      cell.setAttribute("aria-selected", selected);
      cell.tabIndex = selected ? 0 : -1;
    }
    if (this.#focused) this.focus();
    this.#focused = false;
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => this.#rest(), REST);
  }

  /** Ask for the rows and photos in view; for one photo after the other, since each may take much memory. */
  async #rest() {
    this.#ask();
    for (const small of this.canvas.querySelectorAll("img:not([src])")) {
      const address = small.isConnected && await this.image("thumbnail", small.parentElement.dataset.id).catch(() => "");
      if (address) small.src = address;
    }
  }

  #add(line) {
    const element = make("div", { class: "row", role: "row", "aria-rowindex": line + 1 });
    element.style.top = `${line * HEIGHT}px`;
    element.style.gridTemplateColumns = `repeat(${this.#columns}, minmax(0, 1fr))`;
    const start = line * this.#columns;
    this.ids.slice(start, start + this.#columns).forEach((id, place) => {
      const cell = make("div", { class: "cell", role: "gridcell", "data-id": id, "data-place": start + place },
        make("img", { alt: "" }), make("p", { class: "said" }), make("p", { class: "state" }));
      if (this.#rows.has(id)) fill(cell, this.#rows.get(id));
      element.append(cell);
    });
    const next = [...this.#drawn.keys()].filter((other) => other > line).sort((a, b) => a - b)[0];
    this.canvas.insertBefore(element, this.#drawn.get(next) ?? null);
    this.#drawn.set(line, element);
  }

  /** Ask for rows in view of which nothing is known, or what is old; one request at a time. */
  async #ask() {
    if (this.#waiting) return void (this.#waiting.again = true);
    const cells = [...this.canvas.querySelectorAll(".cell")];
    const ids = cells.map((cell) => Number(cell.dataset.id)).filter((id) => !this.#rows.has(id) || this.#old.has(id));
    if (!ids.length) return;
    this.#waiting = { again: false };
    try {
      this.take(await this.load(ids));
    } finally {
      const { again } = this.#waiting;
      this.#waiting = null;
      if (again) this.#ask();
    }
  }
}

/** The words of a caption, the doubtful ones dotted. */
export function words(row) {
  return row.words.flatMap(({ text, instead }) => [instead ? make("span", { class: "check" }, text) : text, " "]);
}

function fill(cell, row) {
  const [said, state] = cell.querySelectorAll("p");
  const without = row.hidden ? "to be written" : row.error || "not captioned yet";
  const shown = row.reviewed ? [row.caption] : words(row);
  said.replaceChildren(...(row.caption ? shown : [make("em", {}, without)]));
  state.textContent = [row.reviewed || percent(row), row.name].filter(Boolean).join(" · ");
  const doubtful = row.words.filter((word) => word.instead && !row.reviewed).map((word) => word.text);
  cell.setAttribute("aria-description", doubtful.length ? `to check: ${doubtful.join(", ")}` : "");
  cell.classList.toggle("done", Boolean(row.reviewed));
  cell.classList.toggle("out", row.reviewed === "left out");
}

export function percent(row) {
  return row.confidence == null ? "" : `confidence ${Math.round(100 * row.confidence)} %`;
}
