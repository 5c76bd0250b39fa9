/* The first page. A finished example stands in a frame. Whoever chooses photos gets the captioner of try/ in the same
   place: it shows its own progress, and a button takes it away again, with whatever it still downloads. */
(() => {
  "use strict";
  const front = document.querySelector(".front");
  if (!front) return;
  const [example, bar] = [front.querySelector(".front-example"), front.querySelector(".front-bar")];
  const choose = bar.querySelector("input"), back = bar.querySelector(".front-back");
  const note = bar.querySelector(".front-note"), whole = bar.querySelector(".front-whole");
  const address = new URL(front.dataset.try, document.baseURI).href;
  const said = note.textContent;
  // within this page: no header and no second button, the caption in sight below its photo, and the choices below both
  const FRAMED = `
    :is(.sat-header, #intake, #cost, .credits) { display: none !important }
    .sat-page main { padding: 1rem }
    .result:first-child { margin: 0; padding: 0; border: 0 }
    .sat-photo, .preview { max-width: min(100%, 24rem * var(--ratio, 1)) }
    .sat-captions { display: flex; flex-direction: column }
    .sat-captions > .sat-group { order: 1 }
    .sat-captions > :is(.sat-choice, .sat-about) { order: 2; margin-top: 1rem }
    .sat-captions > .sat-choice ~ .sat-about { order: 3; margin-top: 0 }`;
  let captioner = null;

  /** The document in a frame; null where the browser keeps it apart, as it does for files that are opened from a disk. */
  function inside(frame) {
    try {
      return frame.contentDocument;
    } catch {
      return null;
    }
  }

  /** Make a frame as high as its content, and as light or dark as this page. */
  function fit(frame) {
    const page = inside(frame), main = page?.querySelector("main");
    if (!main) return;
    const sheet = new frame.contentWindow.CSSStyleSheet();
    sheet.replaceSync(FRAMED);
    page.adoptedStyleSheets = [sheet];
    const height = () => {
      const end = main.getBoundingClientRect().bottom + page.scrollingElement.scrollTop;
      frame.style.height = `${Math.ceil(end) + 24}px`;
    };
    const theme = () => {
      const chosen = document.body.dataset.theme;
      if (chosen === "light" || chosen === "dark") page.documentElement.dataset.theme = chosen;
      else delete page.documentElement.dataset.theme;
    };
    new ResizeObserver(height).observe(main);
    new MutationObserver(theme).observe(document.body, { attributeFilter: ["data-theme"] });
    theme();
    height();
  }

  /** Put the captioner into the example's place, and give it the photos. */
  function start(photos) {
    captioner = document.createElement("iframe");
    captioner.title = "Captions of your photos";
    captioner.addEventListener("load", () => {
      const intake = inside(captioner)?.getElementById("choose");
      if (!intake) return stop("The captioner could not be loaded. Please try again.");
      fit(captioner);
      hand(intake, photos);
      back.textContent = "Back to the example";
      note.textContent = "Your photos stay on this device.";
    }, { once: true });
    captioner.src = address;
    example.hidden = true;
    example.style.display = "none";
    front.append(captioner);
    front.scrollIntoView({ block: "start" });
    back.textContent = "Cancel";
    back.hidden = whole.hidden = false;
    note.textContent = "Loading …";
  }

  function hand(intake, photos) {
    const carrier = new DataTransfer();
    for (const photo of photos) carrier.items.add(photo);
    intake.files = carrier.files;
    intake.dispatchEvent(new Event("change", { bubbles: true }));
  }

  /** Take the captioner away; its downloads end with it. */
  function stop(text = said) {
    captioner?.remove();
    captioner = null;
    example.style.display = "";
    back.hidden = whole.hidden = true;
    note.textContent = text;
  }

  choose.addEventListener("change", () => {
    const photos = [...choose.files];
    choose.value = ""; // so that the same photo can be chosen again
    if (!photos.length) return;
    const intake = captioner && inside(captioner)?.getElementById("choose");
    if (intake) hand(intake, photos);
    else {
      stop();
      start(photos);
    }
  });
  back.addEventListener("click", () => stop());
  example.addEventListener("load", () => fit(example));
  fit(example);
  // `make docs` builds the documentation alone: there and on a disk nothing can be tried
  if (location.protocol.startsWith("http"))
    fetch(address, { method: "HEAD" }).then(({ ok }) => { bar.hidden = !ok; }, () => {});
})();
