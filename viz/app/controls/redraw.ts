import { readRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { rebuild } from "./dom.ts";

/**
 * Replaces the content of `host` each time it is called by what `build` appends to `context.root`, which is `host`. The signal
 * of the context is aborted at the next call, and its parameters are those of the current URL.
 */
export function redrawing(context: ViewContext, host: HTMLElement): (build: (context: ViewContext) => void) => void {
  let drawing = new AbortController();
  return (build) => {
    drawing.abort();
    drawing = new AbortController();
    const signal = AbortSignal.any([context.signal, drawing.signal]);
    rebuild(host, () => build({ ...context, root: host, params: readRoute().params, signal }));
  };
}
