import type { Live } from "./server.ts";

/** What a view is given: where to draw, what the URL says, the runs as they come, and when it is left. */
export interface Page {
  readonly root: HTMLElement;
  readonly params: URLSearchParams;
  readonly live: Live;
  readonly left: AbortSignal;
}
