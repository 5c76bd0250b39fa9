/** What the plugins in vite.config.ts give. */

/** A page of captions as `show/page` of Python has it, but for its title and data: values for the names in the template. */
declare module "virtual:page" {
  const shell: Record<"template" | "policy" | "style" | "script", string>;
  export default shell;
}

/** The builds of ONNX Runtime as files of the page. */
declare module "virtual:runtime" {
  import type { Stored } from "./download.ts";

  export interface Build {
    script: string; // path from the page's address
    binary: Stored;
  }

  const builds: { plain: Build; gpu: Build };
  export default builds;
}
