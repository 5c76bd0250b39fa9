declare module "*?raw" {
  const content: string;
  export default content;
}

/** What the plugin in vite.config.ts gives: the builds of ONNX Runtime as files of the page. */
declare module "virtual:runtime" {
  import type { Stored } from "./download.ts";

  export interface Build {
    script: string; // path from the page's address
    binary: Stored;
  }

  const builds: { plain: Build; gpu: Build };
  export default builds;
}
