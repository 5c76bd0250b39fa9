/* What the app's pages ask the server. */
(() => {
  "use strict";

  const AGAIN = 2000; // milliseconds until a server that went away is asked again
  const element = (id) => document.getElementById(id);

  class Gone extends Error {} // the server does not answer

  /** The server's answer: asked with its token, and again when it is busy. Throws `Gone`, `Refused`, or an AbortError. */
  async function ask(path, { body, signal, read = "json", busy = () => {} } = {}) {
    for (;;) {
      const token = sessionStorage.getItem("token");
      let response;
      try {
        response = await fetch(path, {
          method: body ? "POST" : "GET", body, signal, headers: token ? { Authorization: `Bearer ${token}` } : {},
        });
        if (response.ok) return await response[read]();
      } catch (error) {
        if (signal?.aborted) throw error;
        throw new Gone();
      }
      if (response.status === 401) {
        await askForToken(token);
      } else if (response.status === 503) {
        const seconds = Number(response.headers.get("Retry-After")) || 1;
        busy(seconds);
        await pause(1000 * seconds, signal);
      } else {
        const answer = await response.json().catch(() => null); // not JSON: from a proxy before the server
        signal?.throwIfAborted();
        if (!answer?.detail && [502, 504].includes(response.status)) throw new Gone();
        const meaning = response.status === 413 ? ": this photo is too large for it" : "";
        throw new SatPhotos.Refused(answer?.detail ?? `The server answered ${response.status}${meaning}.`, response.status >= 500);
      }
    }
  }

  function pause(milliseconds, signal) {
    return new Promise((done, fail) => {
      const timer = setTimeout(done, milliseconds);
      signal?.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason); });
    });
  }

  let dialog = null; // one for all who wait for it
  function askForToken(refused) {
    if (sessionStorage.getItem("token") !== refused) return Promise.resolve(); // another has asked meanwhile
    dialog ??= new Promise((done) => {
      const box = element("asked"), field = element("token");
      field.value = "";
      box.showModal();
      box.oncancel = (event) => event.preventDefault(); // nothing works without it
      box.onclose = () => { if (dialog) box.showModal(); }; // a second Escape closes it all the same
      box.querySelector("form").onsubmit = (event) => {
        event.preventDefault();
        sessionStorage.setItem("token", field.value.trim());
        dialog = null;
        box.close();
        done();
      };
    });
    return dialog;
  }

  const answers = () => fetch("healthz").then((response) => response.ok, () => false);

  /** Wait until the server answers again. */
  async function back() {
    do await pause(AGAIN); while (!await answers());
  }

  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

  globalThis.SatServer = { Gone, ask, answers, back, megabytes };
})();
