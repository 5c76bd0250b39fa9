/* What if it were hidden? What came out is drawn: the photo, the place hidden, and the same outline hidden elsewhere.

   SatHide.trial(caption, answer, undo) gives an element. An answer is what Hidden.to_dict() gives, with one more entry:
   cover, a small picture of what hides, over all that the encoder saw. SatHide.painter(canvas, caption, done) lets a
   pointer paint on a photo; done gets the mask as runs, as in an answer. sheet, layers and copier make pictures, and keep saves one. */
(() => {
  "use strict";

  const { make, visibleBox } = SatCaptions;
  const LONGEST = 640; // pixels of a drawn photo's longer side
  const CELLS = 56; // side of a painted mask
  const BRUSH = 0.07; // its radius, in sides of what the encoder saw
  const EDGE = "#ff8a1f";
  const GAP = 16, LINE = 22; // pixels on a picture that is copied or saved

  // Drawing

  function loaded(source) {
    const image = make("img", { src: source });
    return image.decode().then(() => image);
  }

  /** A mask of runs on a grid, as an opaque shape on a transparent canvas of the photo's shape. */
  function stencil(runs, [rows, columns], [wide, high], box) {
    const small = new OffscreenCanvas(columns, rows), pixels = new ImageData(columns, rows);
    let at = 0;
    runs.forEach((length, turn) => {
      if (turn % 2) for (let cell = at; cell < at + length; cell++) pixels.data[4 * cell + 3] = 255;
      at += length;
    });
    small.getContext("2d").putImageData(pixels, 0, 0);
    const canvas = new OffscreenCanvas(wide, high), context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(small, ...box);
    const shape = context.getImageData(0, 0, wide, high);
    for (let alpha = 3; alpha < shape.data.length; alpha += 4) shape.data[alpha] = shape.data[alpha] < 128 ? 0 : 255;
    context.putImageData(shape, 0, 0);
    return canvas;
  }

  /** What `fill` draws inside a shape, or around its edge, on a canvas of its own. */
  function clipped(shape, fill, edge = 0) {
    const canvas = new OffscreenCanvas(shape.width, shape.height), context = canvas.getContext("2d");
    for (const [x, y] of edge ? [[-1, -1], [0, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [0, 1], [1, 1]] : [[0, 0]])
      context.drawImage(shape, edge * x, edge * y);
    if (edge) {
      context.globalCompositeOperation = "destination-out";
      context.drawImage(shape, 0, 0);
    }
    context.globalCompositeOperation = "source-in";
    fill(context);
    return canvas;
  }

  /** The photo with a mask hidden, or with the mask's edge. */
  function draw(canvas, photo, cover, runs, grid, caption) {
    const { width, height } = canvas, context = canvas.getContext("2d"), [left, top, right, bottom] = visibleBox(caption);
    const box = [left * width, top * height, (right - left) * width, (bottom - top) * height];
    const shape = stencil(runs, grid, [width, height], box);
    context.drawImage(photo, 0, 0, width, height);
    if (cover) context.drawImage(clipped(shape, (layer) => { layer.imageSmoothingQuality = "high"; layer.drawImage(cover, ...box); }), 0, 0);
    else context.drawImage(clipped(shape, (layer) => { layer.fillStyle = EDGE; layer.fillRect(0, 0, width, height); }, 3), 0, 0);
  }

  function canvasFor([width, height], label, longest = LONGEST) {
    const scale = longest / Math.max(width, height);
    return make("canvas", { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)), role: "img", "aria-label": label });
  }

  // Pictures to keep

  /** One picture of canvases of one size, so many in a row, each with its text below, and lines of text below all.

      The text of a canvas may be several, one below the other. A panel may be null, for an empty place. */
  function sheet(panels, lines, across = panels.length) {
    const { width, height } = panels[0].canvas, wide = GAP + across * (width + GAP);
    const high = 2 * GAP + (panels.length / across) * (height + GAP + 9 * LINE) + 3 * LINE * lines.length;
    const picture = make("canvas", { width: wide, height: high }), context = picture.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, picture.width, picture.height);
    context.font = "16px system-ui, sans-serif";
    context.fillStyle = "#1c1e22";
    const write = (text, left, top, room) => {
      let line = "";
      for (const word of text.split(" ")) {
        if (line && context.measureText(`${line} ${word}`).width > room) {
          context.fillText(line, left, top += LINE);
          line = word;
        } else line = line ? `${line} ${word}` : word;
      }
      context.fillText(line, left, top += LINE);
      return top;
    };
    let top = 0, below = 0;
    panels.forEach((panel, number) => {
      const left = GAP + (number % across) * (width + GAP);
      if (number % across === 0) top = below + GAP;
      if (panel) context.drawImage(panel.canvas, left, top);
      const bottom = [panel?.text ?? []].flat().reduce((above, text) => write(text, left, above, width), top + height);
      below = Math.max(below, bottom);
    });
    for (const line of lines) below = write(line, GAP, below + 4, wide - 2 * GAP);
    const cut = make("canvas", { width: wide, height: Math.min(picture.height, below + GAP) });
    cut.getContext("2d").drawImage(picture, 0, 0);
    return new Promise((done) => cut.toBlob(done, "image/png"));
  }

  /** Have the browser save a file. */
  function keep(blob, name) {
    const link = make("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /** A button that copies a picture; `picture` promises its blob. */
  function copier(picture) {
    const copy = make("button", { type: "button", onclick: async () => {
      try {
        await navigator.clipboard.write([new ClipboardItem({ "image/png": picture() })]);
        copy.textContent = "Copied";
      } catch {
        keep(await picture(), "picture.png"); // a browser may allow no page to copy pictures
        copy.textContent = "Saved: this browser does not copy pictures";
      }
      setTimeout(() => { copy.textContent = "Copy picture"; }, 2500);
    } }, "Copy picture");
    return copy;
  }

  /** What is shown of an element, in layers that fill it, on one canvas. */
  function layers(element, images) {
    const canvas = canvasFor([element.clientWidth, element.clientHeight], "");
    images.forEach((image) => canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height));
    return canvas;
  }

  // What came out

  /** A line that begins with the word has it in bold. */
  const boldly = (line, word) => (word !== null && line.startsWith(word) ? [make("b", {}, make("bdi", {}, word)), line.slice(word.length)] : line);

  const fate = (word, { verdict }) => (verdict === null ? "" : verdict === "gone" ? ` — without ${word}` : verdict === "renamed" ? ` — ${word} renamed` : ` — still ${word}`);

  function trial(caption, answer, undo) {
    const { word, here, elsewhere, grid, lines } = answer;
    const whole = canvasFor(caption.size, `The photo, with an edge around what is hidden`), place = canvasFor(caption.size, "The photo with the place hidden");
    const other = canvasFor(caption.size, "The photo with another place hidden"), said = make("figcaption", { "aria-live": "polite" });
    const thumbs = elsewhere.map(() => canvasFor(caption.size, "", 96));
    const buttons = thumbs.map((canvas, number) => make("button", {
      type: "button", "aria-label": `Other place ${number + 1}: ${elsewhere[number].caption}${fate(word, elsewhere[number])}`, onclick: () => choose(number),
    }, canvas));
    let pictures = null, chosen = 0;

    function choose(number) {
      chosen = number;
      buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === number)));
      said.replaceChildren(make("bdi", {}, elsewhere[number].caption), make("small", {}, fate(word, elsewhere[number])));
      if (pictures) draw(other, ...pictures, elsewhere[number].mask, grid, caption);
    }

    const figure = (name, canvas, text, more) => make("figure", {}, make("h3", {}, name), canvas, text, more);
    const told = (text, of) => make("figcaption", {}, make("bdi", {}, text), of && make("small", {}, fate(word, of)));
    const texts = () => [caption.caption, here.caption + fate(word, here), elsewhere[chosen].caption + fate(word, elsewhere[chosen])];
    const picture = () => sheet([whole, place, other].map((canvas, index) => ({ canvas, text: texts()[index] })), lines);
    choose(0);
    Promise.all([loaded(caption.image), loaded(answer.cover)]).then((found) => {
      pictures = found;
      draw(whole, found[0], null, here.mask, grid, caption);
      draw(place, ...found, here.mask, grid, caption);
      thumbs.forEach((canvas, index) => draw(canvas, ...found, elsewhere[index].mask, grid, caption));
      choose(chosen);
    }, () => {}); // the texts are there all the same
    return make("section", { class: "sat-trial", "aria-label": word === null ? "A place hidden" : `${word}, hidden` },
      make("div", { class: "sat-columns" },
        figure("Photo", whole, told(caption.caption)),
        figure("Hidden here", place, told(here.caption, here)),
        figure("Hidden elsewhere", other, said, make("div", { class: "sat-thumbs", role: "group", "aria-label": "The other places" }, buttons))),
      make("div", { class: "sat-lines", role: "status" }, lines.map((line) => make("p", {}, boldly(line, word)))),
      make("div", { class: "sat-steps" }, make("button", { type: "button", onclick: undo }, "Undo"), copier(picture),
        make("button", { type: "button", onclick: async () => keep(await picture(), `${word ?? "place"}-hidden.png`) }, "Save picture")));
  }

  // Painting

  /** Let a pointer paint on the canvas over a photo until it is lifted; returns what ends it. */
  function painter(canvas, caption, done) {
    const [left, top, right, bottom] = visibleBox(caption), mask = new OffscreenCanvas(CELLS, CELLS).getContext("2d");
    const grounds = [ // what the encoder saw, on the mask and on the photo
      [mask, 0, 0, CELLS, CELLS],
      [canvas.getContext("2d"), left * canvas.width, top * canvas.height, (right - left) * canvas.width, (bottom - top) * canvas.height],
    ];
    const ending = new AbortController(), { signal } = ending;
    let last = null; // where the pointer was, in sides of what the encoder saw
    const stroke = (event) => {
      const { x, y, width, height } = canvas.getBoundingClientRect();
      const to = [((event.clientX - x) / width - left) / (right - left), ((event.clientY - y) / height - top) / (bottom - top)];
      const from = last ?? to;
      for (const [context, x0, y0, wide, high] of grounds) {
        context.strokeStyle = EDGE;
        context.lineCap = "round";
        context.lineWidth = 2 * BRUSH * wide;
        context.beginPath();
        context.moveTo(x0 + from[0] * wide, y0 + from[1] * high);
        context.lineTo(x0 + to[0] * wide + 0.01, y0 + to[1] * high); // a line without length would not be drawn
        context.stroke();
      }
      last = to;
    };
    canvas.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      canvas.setPointerCapture(event.pointerId);
      stroke(event);
      canvas.addEventListener("pointermove", stroke, { signal });
    }, { signal });
    canvas.addEventListener("pointerup", () => {
      if (!last) return; // it was pressed elsewhere
      ending.abort();
      const spent = (click) => click.stopPropagation(); // the end of a stroke is no click on the photo
      canvas.addEventListener("click", spent);
      setTimeout(() => canvas.removeEventListener("click", spent));
      const alpha = mask.getImageData(0, 0, CELLS, CELLS).data.filter((_, at) => at % 4 === 3);
      if (alpha.some(hides)) done(runsOf(alpha));
    }, { signal });
    return () => ending.abort();
  }

  const hides = (alpha) => alpha > 127;

  /** Cells as lengths of runs, visible first. */
  function runsOf(alpha) {
    const runs = [0];
    for (const cell of alpha) {
      if (hides(cell) !== (runs.length % 2 === 0)) runs.push(0);
      runs[runs.length - 1]++;
    }
    return runs;
  }

  globalThis.SatHide = { trial, painter, copier, layers, sheet, keep };
})();
