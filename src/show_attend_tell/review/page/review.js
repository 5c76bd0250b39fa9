/* The page of a review: it shows rows, and sends what is decided to the server, one decision after the other. */
import { Grid, make, percent, words } from "./grid.js";
import { connect } from "./dialogs.js";

const SOON = 400; // milliseconds between two looks at what is new
const SORT = 3000; // and between two times that new captions are sorted, below what is in view
const element = (id) => document.getElementById(id);
const view = element("view"), text = element("text"), edit = element("edit");
const problems = {}; // by where they arose
let since = null, left = null, sorted = 0, shown = "", inHand, edited = null, pending = 0, queue = Promise.resolve();
let touched = false; // whether somebody works here, so that nothing may move that is looked at
for (const kind of ["keydown", "pointerdown", "wheel"])
  document.querySelector("main").addEventListener(kind, () => { touched = true; }, { once: true });

/** The server of `sat review`. */
const server = { full: false, ask: askServer, image: async (kind, id) => `${kind}?${id}` };

/** The server's answer; throws an error that a person may read. */
async function askServer(path, body) {
  let response;
  try {
    response = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Whatever was marked Saved is on the disk: start sat review again.");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.problem);
  return answer;
}

const source = globalThis.SatReview ?? server; // a page that has no server of its own brings the answers, see here.js
const ask = (path, body) => source.ask(path, body), image = (kind, id) => source.image(kind, id);
const asked = () => Object.fromEntries(new FormData(view));
const load = (ids) => ask("rows", { ids }).catch((error) => (problem("background", error.message), []));
const grid = new Grid(element("grid"), { load, image, choose: panel });
const say = (message) => { element("live").textContent = message; };
const joined = (parts, by) => parts.filter(Boolean).join(by);

/** Show what went wrong, in the background or with what was sent; an empty message takes it away. */
function problem(where, message) {
  problems[where] = message;
  element("problem").textContent = joined(Object.values(problems), " ");
  element("problem").hidden = !element("problem").textContent;
}

// What is shown

/** On a phone (as narrow as in review.css) the choices are behind "Options". */
const narrow = matchMedia("(max-width: 48rem)");
const fold = () => { element("options").open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

async function order() {
  const { ids, folders } = await ask("order", asked());
  const known = [...view.folder.options].map((option) => option.value);
  view.folder.append(...folders.filter((name) => name && !known.includes(name)).map((name) => new Option(name)));
  element("count").textContent = `${ids.length.toLocaleString()} shown`;
  return ids;
}

const show = () => order().then((ids) => grid.show(ids), (error) => problem("sent", error.message));

/** Look for what is new, until the server ends. */
async function watch() {
  for (;;) {
    const state = await ask("state", { since });
    since = state.version;
    const waiting = state.captioning && `${state.captioning.toLocaleString()} to be captioned by ${state.model}.`;
    element("sentence").textContent =
      joined([state.sentence, waiting, state.conflicts && `${state.conflicts} changed twice.`], " ");
    element("note").textContent = state.left_out;
    problem("background", state.problem);
    dialogs.state(state);
    grid.refresh();
    const now = `${state.captioning} of ${state.photos}`;
    if (now !== left && grid.ids.length && Date.now() < sorted + SORT) since = null; // look again, and sort then
    else if (now !== left) {
      const idle = !grid.ids.length && document.activeElement === document.body; // keys are for the first photos
      if (left !== null) grid.sort(await order(), touched);
      if (idle) grid.focus();
      left = now;
      sorted = Date.now();
    }
    await new Promise((done) => setTimeout(done, SOON));
  }
}

function panel(row) {
  if (row?.id !== edited?.row.id) settle();
  element("panel").hidden = !grid.ids.length;
  element("panel").style.visibility = row ? "" : "hidden"; // it keeps its place while a row is asked for
  const now = JSON.stringify(row);
  if (edited || now === shown) return; // what has the focus in the panel keeps it
  shown = now;
  if (row && row.id !== inHand) {
    element("panel").scrollTop = 0;
    image("photo", row.id).catch(() => "").then((address) => { if (inHand === row.id) element("large").src = address; });
  }
  inHand = row?.id;
  if (!row) return;
  element("name").textContent = row.name;
  element("caption").replaceChildren(...words(row));
  element("offers").replaceChildren(...offers(row));
  if (!row.caption) element("caption").textContent = row.hidden ? "Write what you see (E)." : row.error || "…";
  const own = row.model_caption && row.model_caption !== row.caption && `the model’s: ${row.model_caption}`;
  const described = row.decorative ? "decorative" : row.alt_text && `alt text: ${row.alt_text}`;
  element("facts").textContent = joined([row.reviewed || "not reviewed", percent(row), own, described], " · ");
  element("choices").replaceChildren(...row.choices.map((choice, number) => {
    const button = make("button", { type: "button" }, choice.text, make("small", {}, choice.by && ` by ${choice.by}`));
    button.onclick = () => take(number);
    return make("li", {}, button);
  }));
}

/** For each doubtful word of the caption in hand, the words that the model would say instead. */
function offers(row) {
  return row.words.flatMap((word, place) => {
    if (!word.instead?.length) return [];
    const buttons = word.instead.map((other) => {
      const button = make("button", { type: "button", class: "act", "aria-label": `${other} instead of ${word.text}` }, other);
      button.onclick = () => { decide("exchange", { place, word: other }, row.id); grid.focus(); };
      return button;
    });
    return [make("p", {}, `${word.text}, or: `, ...buttons)];
  });
}

// What is decided

/** Send something after all that was sent before; "Saved" is shown when the disk has it. */
function send(path, body) {
  pending += 1;
  element("saved").textContent = "Saving…";
  const answer = queue.then(() => ask(path, body));
  queue = answer.then(() => problem("sent", ""), (error) => problem("sent", error.message)).then(() => {
    pending -= 1;
    if (!pending) element("saved").textContent = problems.sent || source.full ? "Not saved" : "Saved";
  });
  return answer;
}

function decide(action, more = {}, id = grid.ids[grid.current]) {
  if (id === undefined) return;
  send("decide", { id, action, ...more }).then(
    (row) => {
      grid.take([row]);
      const next = grid.row?.words ?? [];
      const doubtful = next.filter((each) => each.instead).map((each) => each.text);
      say(`${row.reviewed || "not reviewed"}: ${row.caption}. Now ${grid.current + 1} of ${grid.ids.length}: ${
        joined([next.map((each) => each.text).join(" "), doubtful.length && `to check: ${doubtful.join(", ")}`], "; ")}`);
    },
    () => grid.go(grid.ids.indexOf(id)),
  );
}

/** Decide the row in hand, and go on to the next. */
function decideAndGo(action, more) {
  settle();
  decide(action, more);
  grid.go(grid.current + 1, true);
}

function take(number) {
  const choice = grid.row?.choices[number];
  if (choice) decideAndGo("write", { text: choice.text });
}

async function undo() {
  const { label, ids } = await send("undo", {});
  const place = grid.ids.indexOf(ids[0]);
  if (ids.length === 1 && place >= 0) grid.go(place);
  say(label ? `Undone: ${label}` : "There is nothing to undo");
}

/** Open the field for the caption, or for the alternative text. */
function write(alt) {
  const row = grid.row, action = alt ? "describe" : "write";
  if (!row) return;
  if (edited?.row.id === row.id && edited.action === action) return void text.focus();
  settle();
  edited = { row, action, before: alt ? row.alt_text : row.caption };
  edit.hidden = false;
  edit.firstElementChild.textContent = alt ? "Alternative text" : "Caption";
  element("decor").hidden = !alt;
  element("decorative").checked = row.decorative;
  text.value = edited.before;
  text.oninput();
  text.focus();
}

/** Close the field, if it is open, and save what was changed in it. */
function settle() {
  if (!edited) return;
  const { row, action, before } = edited;
  done(before !== text.value || (action === "describe" && row.decorative !== (element("decorative").checked ? "yes" : "")));
}

/** Close the field, and save what is in it for the row for which it was opened. */
function done(save) {
  const { row, action } = edited;
  edited = null;
  edit.hidden = true;
  const decorative = action === "describe" ? { decorative: element("decorative").checked } : {};
  if (save) decide(action, { text: text.value, ...decorative }, row.id);
}

function submit(event) {
  event.preventDefault();
  done(true);
  grid.go(grid.current + 1, true);
}

function cancel() {
  done(false);
  panel(grid.row ?? null);
  grid.focus();
}

text.oninput = () => { element("length").textContent = `${[...text.value].length} characters`; };
text.onkeydown = (event) => { if (event.key === "Enter" && !event.isComposing) submit(event); };
edit.onkeydown = (event) => { if (event.key === "Escape") cancel(); };
edit.onsubmit = submit;
element("cancel").onclick = cancel;

const acts = {
  accept: () => decideAndGo("accept"),
  "leave out": () => decideAndGo("leave out"),
  undo,
  edit: () => write(false),
  alt: () => write(true),
  save: () => dialogs.open("save"),
};
for (const button of document.querySelectorAll("[data-act]")) button.onclick = acts[button.dataset.act];

// Keys

const KEYS = { e: "edit", x: "leave out", a: "alt", s: "save" };
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, textarea, select, dialog") || document.querySelector("dialog[open]");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const moves = /^(Arrow|Page|Home|End)/.test(event.key);
  if (event.repeat && !moves) return event.preventDefault(); // a key that is held decides once
  const onButton = event.target.closest("button");
  const letters = element("letters").checked;
  if (event.key === "Backspace") undo();
  else if (event.key === "Enter" && !onButton) acts.accept();
  else if (letters && event.key.toLowerCase() in KEYS) acts[KEYS[event.key.toLowerCase()]]();
  else if (letters && /^[1-9]$/.test(event.key)) take(Number(event.key) - 1);
  else if (letters && event.key === "?") dialogs.open("keys");
  else if (onButton || !grid.key(event.key)) return;
  event.preventDefault();
});

try {
  element("letters").checked = localStorage.getItem("letters") !== "off";
} catch {
  // This browser keeps nothing: they are keys.
}
element("letters").onchange = () => localStorage.setItem("letters", element("letters").checked ? "on" : "off");

// The view

let typing = 0;
view.onsubmit = (event) => event.preventDefault();
view.onchange = show;
view.word.oninput = () => { clearTimeout(typing); typing = setTimeout(show, SOON); };

/** Show the rows of a state, from the first on. */
function go(state) {
  view.state.value = state;
  view.word.value = view.folder.value = "";
  return show().then(() => grid.focus());
}

element("again").onclick = () => show().then(() => grid.focus());
element("draw").onclick = () => send("draw", {}).then(() => go("drawn"), () => {});
const dialogs = connect({ asked, send, go });
await show();
grid.focus();
watch().catch((error) => problem("background", error.message));
