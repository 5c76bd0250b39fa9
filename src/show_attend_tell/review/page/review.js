/* The page of a review: it shows rows, and sends what is decided to the server, one decision after the other. */
import { Grid, make, percent, words } from "./grid.js";
import { connect } from "./dialogs.js";

const SOON = 400; // milliseconds between two looks at what is new
const SORT = 3000; // and between two times that new captions are sorted, below what is in view
const element = (id) => document.getElementById(id);
const view = element("view"), text = element("text"), edit = element("edit");
let since = "", left = null, sorted = 0, alt = false, pending = 0, queue = Promise.resolve();

/** The server's answer; throws an error that a person may read. */
export async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body && { method: "POST", body: JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. What is called Saved is on the disk: start sat review again.");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.problem);
  return answer;
}

const asked = () => Object.fromEntries(new FormData(view));
const grid = new Grid(element("grid"), { load: (ids) => ask(`rows?ids=${ids}`), choose: panel });

function say(message) { element("live").textContent = message; }

function problem(message) {
  element("problem").hidden = !message;
  element("problem").textContent = message;
}

// What is shown

async function order() {
  grid.show(await newOrder());
}

async function newOrder() {
  const { ids, folders } = await ask(`order?${new URLSearchParams(asked())}`);
  const known = [...view.folder.options].map((option) => option.value);
  view.folder.append(...folders.filter((name) => name && !known.includes(name)).map((name) => new Option(name)));
  element("count").textContent = `${ids.length.toLocaleString()} shown`;
  return ids;
}

/** Look for what is new, until the server ends. */
async function watch() {
  for (;;) {
    const state = await ask(`state?since=${since}`);
    since = state.version;
    element("sentence").textContent = [
      state.sentence, state.captioning ? `${state.captioning.toLocaleString()} to be captioned by ${state.model}.` : "",
      state.conflicts ? `${state.conflicts} changed twice.` : "",
    ].filter(Boolean).join(" ");
    element("note").textContent = state.left_out;
    problem(state.problem);
    dialogs.state(state);
    grid.refresh();
    if (left !== state.captioning && Date.now() > sorted + SORT) {
      if (left !== null) grid.sort(await newOrder());
      left = state.captioning;
      sorted = Date.now();
    }
    await new Promise((done) => setTimeout(done, SOON));
  }
}

function panel(row) {
  element("panel").hidden = !row;
  if (!row || !edit.hidden) return;
  const large = `photo?id=${row.id}`;
  if (element("large").getAttribute("src") !== large) element("large").src = large;
  element("name").textContent = row.name;
  element("caption").replaceChildren(...words(row, word));
  if (!row.caption) element("caption").textContent = row.hidden ? "Write what you see (E)." : row.error || "…";
  const own = row.model_caption && row.model_caption !== row.caption ? `the model’s: ${row.model_caption}` : "";
  const described = row.decorative ? "decorative" : row.alt_text && `alt text: ${row.alt_text}`;
  element("facts").textContent = [row.reviewed || "not reviewed", percent(row), own, described].filter(Boolean).join(" · ");
  element("choices").replaceChildren(...row.choices.map((choice, number) => {
    const button = make("button", { type: "button" }, choice.text, make("small", {}, choice.by && ` by ${choice.by}`));
    button.onclick = () => take(number);
    return make("li", {}, button);
  }));
}

/** A doubtful word of the caption in hand: a choice of what other captions say instead. */
function word(doubtful) {
  if (!doubtful.instead.length) return make("span", { class: "check", title: "to check" }, doubtful.text);
  const options = [doubtful.text, ...doubtful.instead].map((option) => new Option(option));
  const select = make("select", { class: "check", "aria-label": `${doubtful.text}, to check: or` }, ...options);
  const row = grid.row;
  select.onchange = () => {
    const changed = row.words.map((each) => (each === doubtful ? select.value : each.text));
    decide("write", { text: changed.join(" ") }, false);
  };
  return select;
}

// What is decided

/** Send something after all that was sent before; "Saved" is shown when the disk has it. */
export function send(path, body) {
  pending += 1;
  element("saved").textContent = "Saving…";
  const answer = queue.then(() => ask(path, body));
  queue = answer.then(() => problem(""), (error) => problem(error.message)).then(() => {
    pending -= 1;
    if (!pending) element("saved").textContent = element("problem").hidden ? "Saved" : "Not saved";
  });
  return answer;
}

function decide(action, more = {}, on = true) {
  const place = grid.current, id = grid.ids[place];
  if (id == null) return;
  if (on) grid.go(place + 1);
  send("decide", { id, action, ...more }).then(
    (row) => {
      grid.take([row]);
      say(`${row.reviewed}: ${row.caption}. Now ${grid.current + 1} of ${grid.ids.length}: ${heard(grid.row)}`);
    },
    () => grid.go(place),
  );
}

function heard(row) {
  if (!row) return "";
  const doubtful = row.words.filter((each) => each.instead).map((each) => each.text);
  return `${row.caption || "no caption"}${doubtful.length ? `; to check: ${doubtful.join(", ")}` : ""}`;
}

function take(number) {
  const choice = grid.row?.choices[number];
  if (choice) decide("write", { text: choice.text });
  grid.focus();
}

async function undo() {
  const { label, ids } = await send("undo", {});
  const place = grid.ids.indexOf(ids[0]);
  if (ids.length === 1 && place >= 0) grid.go(place);
  say(label ? `Undone: ${label}` : "There is nothing to undo");
}

/** Open the field for the caption, or for the alternative text. */
function write(forAlt) {
  const row = grid.row;
  if (!row) return;
  alt = forAlt;
  edit.hidden = false;
  edit.firstElementChild.textContent = alt ? "Alternative text" : "Caption";
  element("decor").hidden = !alt;
  element("decorative").checked = row.decorative;
  text.value = alt ? row.alt_text : row.caption;
  text.oninput();
  text.focus();
}

function done() {
  edit.hidden = true;
  grid.focus();
  panel(grid.row ?? null);
}

text.oninput = () => { element("length").textContent = `${[...text.value].length} characters`; };
text.onkeydown = (event) => {
  if (event.key === "Enter" && !event.isComposing) edit.onsubmit(event);
};
edit.onkeydown = (event) => { if (event.key === "Escape") done(); };
edit.onsubmit = (event) => {
  event.preventDefault();
  const written = { text: text.value, decorative: element("decorative").checked };
  const action = alt ? "describe" : "write";
  done();
  decide(action, written);
};
element("cancel").onclick = done;

const acts = {
  accept: () => decide("accept"), "leave out": () => decide("leave out"), undo, edit: () => write(false), alt: () => write(true),
};
for (const button of document.querySelectorAll("[data-act]")) button.onclick = acts[button.dataset.act];

// Keys

const KEYS = { e: "edit", x: "leave out", a: "alt" };
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, textarea, select, dialog") || document.querySelector("dialog[open]");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
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

element("letters").checked = localStorage.getItem("letters") !== "off";
element("letters").onchange = () => localStorage.setItem("letters", element("letters").checked ? "on" : "off");

// The view

let typing = 0;
view.onsubmit = (event) => event.preventDefault();
view.onchange = () => order().catch((error) => problem(error.message));
view.word.oninput = () => { clearTimeout(typing); typing = setTimeout(view.onchange, SOON); };

/** Show the rows of a state, from the first on. */
function go(state) {
  view.state.value = state;
  view.word.value = view.folder.value = "";
  return order().then(() => grid.focus());
}

element("draw").onclick = () => send("draw", {}).then(() => go("drawn"));
const dialogs = connect({ asked, send, go });
await order().catch((error) => problem(error.message));
grid.focus();
watch().catch((error) => problem(error.message));
