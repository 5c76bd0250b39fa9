/* The dialogs of a review: accept those shown, find and replace, save, teach, and the keys. */

const of = (id, selector = "form") => document.querySelector(`#${id} ${selector}`);

/** Connect the dialogs; `asked` gives the view, `send` sends to the server, and `go` shows the rows of a state. */
export function connect({ asked, send, go }) {
  const opened = { accept: tryAccept, replace: tryReplace, save: () => { of("save", "output").value = ""; } };

  function open(id) {
    document.getElementById(id).showModal();
    opened[id]?.();
  }

  for (const button of document.querySelectorAll("[data-dialog]")) button.onclick = () => open(button.dataset.dialog);
  for (const button of document.querySelectorAll("[data-close]")) button.onclick = () => button.closest("dialog").close();

  /** What a form does when it is sent; what goes wrong is said on the page. */
  function act(id, action) {
    of(id).onsubmit = (event) => {
      event.preventDefault();
      action(Object.fromEntries(new FormData(of(id)))).catch(() => document.getElementById(id).close());
    };
  }

  async function tryAccept() {
    const { number } = await send("accept", { ...asked(), tried: true });
    of("accept", "output").value = `Captions shown that nobody has reviewed: ${number.toLocaleString()}.`;
    of("accept", "button.main").disabled = !number;
  }

  act("accept", async () => {
    await send("accept", asked());
    document.getElementById("accept").close();
  });

  async function tryReplace() {
    const { old, new: by } = Object.fromEntries(new FormData(of("replace")));
    of("replace", "button.main").disabled = !old.trim();
    if (!old.trim()) return void (of("replace", "output").value = "");
    const { number, captions } = await send("replace", { ...asked(), old, new: by, tried: true });
    of("replace", "output").value = [`Captions that change: ${number.toLocaleString()}.`, ...captions].join("\n");
  }

  of("replace").oninput = tryReplace;
  act("replace", async (given) => {
    const { label } = await send("replace", { ...asked(), ...given });
    of("replace", "output").value = `Done: ${label}. Backspace takes it back.`;
  });

  act("save", async ({ sidecars, trusted, above, alt }) => {
    const chosen = { sidecars: Boolean(sidecars), above: trusted ? Number(above) : null, alt: Boolean(alt) };
    const { message } = await send("save", chosen);
    of("save", "output").value = message;
  });

  act("teach", async () => {
    await send("draw", { judge: true });
    document.getElementById("teach").close();
    await go("to write");
  });

  /** Take in how far the review is. */
  function state({ taught, folder, compare }) {
    of("teach", "output").value = taught;
    document.getElementById("command").textContent =
      `sat check ${folder}\nsat train ${folder} --output my-model\nsat review ${folder} --compare my-model`;
    document.querySelector('option[value="change"]').hidden = !compare;
    document.querySelector('option[value="differs"]').hidden = !compare;
  }

  return { open, state };
}
