import type { ServerState } from "./data/server.ts";

/** A page of the dashboard. Each one is a file of `views/` and a line of its registry, `views/index.ts`. */
export interface View {
  /** First part of the URL's hash: `#/name?…`. */
  readonly name: string;
  /** In the menu and in the document's title. */
  readonly title: string;
  /** Order in the menu, ascending; a view without it is reached by links. */
  readonly menuOrder?: number;
  /** Appends the view's elements to `context.root`. */
  show(context: ViewContext): void | Promise<void>;
}

/** The arguments of a view. */
export interface ViewContext {
  /** Empty when the view is shown. */
  readonly root: HTMLElement;
  /** The query of the URL's hash. */
  readonly params: URLSearchParams;
  readonly server: ServerState;
  /** Aborted when another view is shown. */
  readonly signal: AbortSignal;
}
