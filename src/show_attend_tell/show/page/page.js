/* The page of captions: mounts the viewer on what the page carries. */
(() => {
  "use strict";
  const { title, images, captions, cards } = JSON.parse(document.getElementById("sat-data").textContent);
  const main = document.getElementById("sat-main"), make = SatViewer.make;
  main.append(make("header", { class: "sat-header" }, make("h1", {}, title), SatViewer.themeButton()));
  SatViewer.mount(main, captions.map((caption) => ({ ...caption, image: images[caption.image] })), { cards });
})();
