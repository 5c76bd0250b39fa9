/** How the page is built: into static files for any server, under any path. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Scripts and WebAssembly of the page itself, styles of the page itself, photos from memory, and no other host. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "connect-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** What the service worker adds to each answer. The first two make threads possible. */
const HEADERS = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Content-Security-Policy": `${POLICY}; frame-ancestors 'self'`, // the site's first page shows it in a frame
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

const digest = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");

/** The builds of ONNX Runtime as files of the page: a script, and WebAssembly compressed by gzip. */
function runtime({ emit }: { emit: boolean }): Plugin {
  const folder = dirname(createRequire(import.meta.url).resolve("onnxruntime-web"));
  const files = Object.entries({ plain: "ort-wasm-simd-threaded", gpu: "ort-wasm-simd-threaded.jspi" }).map(([name, stem]) => {
    const script = readFileSync(join(folder, `${stem}.mjs`));
    const binary = gzipSync(readFileSync(join(folder, `${stem}.wasm`)), { level: 9 });
    const sha256 = digest(binary);
    return {
      name, script, binary,
      build: {
        script: `runtime/${name}-${digest(script).slice(0, 12)}.mjs`,
        binary: { path: `runtime/${name}-${sha256.slice(0, 12)}.bin`, bytes: binary.length, sha256 },
      },
    };
  });
  return {
    name: "runtime",
    resolveId: (id) => (id === "virtual:runtime" ? `\0${id}` : null),
    load: (id) => id === "\0virtual:runtime"
      ? `export default ${JSON.stringify(Object.fromEntries(files.map(({ name, build }) => [name, build])))}` : null,
    generateBundle() {
      if (!emit) return;
      for (const { script, binary, build } of files) {
        this.emitFile({ type: "asset", fileName: build.script, source: script });
        this.emitFile({ type: "asset", fileName: build.binary.path, source: binary });
      }
    },
  };
}

/** What is the same in all pages of captions that are saved: Python's template, and what it is filled with. */
function captionsPage(): Plugin {
  const read = (name: string) => readFileSync(join("../src/show_attend_tell/show/page", name), "utf-8");
  const fingerprint = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const script = ["captions.js", "hide.js", "page.js"].map(read).join("");
  const style = read("page.css");
  const policy = `default-src 'none'; script-src ${fingerprint(script)}; style-src ${fingerprint(style)}; `
    + "img-src data:; base-uri 'none'; form-action 'none'";
  return {
    name: "captions-page",
    resolveId: (id) => (id === "virtual:page" ? `\0${id}` : null),
    load: (id) => id === "\0virtual:page"
      ? `export default ${JSON.stringify({ template: read("page.html"), policy, style, script })}` : null,
  };
}

/** What `sat review` has on its page. */
const reviewed = /<body[^>]*>(.*)<\/body>/s.exec(readFileSync("../src/show_attend_tell/review/page/review.html", "utf-8"))!;

/** The policy in the page, and in the service worker the list of the files that it keeps. */
function shell(): Plugin {
  return {
    name: "shell",
    transformIndexHtml: (html) => html.replace("%POLICY%", POLICY).replace("%REVIEW%", () => reviewed[1]),
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        const files = Object.keys(bundle).filter((name) => name !== "sw.js" && !name.endsWith(".bin")).sort();
        const content = files.map((name) => {
          const file = bundle[name];
          return digest(file.type === "chunk" ? file.code : file.source);
        });
        const worker = bundle["sw.js"];
        if (worker?.type !== "chunk") throw new Error("sw.js was not built");
        const version = digest(JSON.stringify([content, HEADERS])).slice(0, 12);
        worker.code = worker.code.replaceAll("__SHELL__", JSON.stringify({ version, files, headers: HEADERS }));
      },
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [runtime({ emit: true }), captionsPage(), shell()],
  resolve: { conditions: ["onnxruntime-web-use-extern-wasm", "module", "browser", "import", "default"] },
  worker: { format: "es", plugins: () => [runtime({ emit: false })] },
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      input: { index: "index.html", review: "review.html", sw: "src/sw.ts" },
      output: { entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
});
