/** Where the page is: the view and all that it was told, from the URL's hash. */
export interface Route {
  readonly view: string;
  readonly params: URLSearchParams;
}

export function readRoute(): Route {
  const [view, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: view || "runs", params: new URLSearchParams(query) };
}

type Values = Readonly<Record<string, string | number | undefined>>;

/** The hash of a view. */
export function linkTo(view: string, values: Values = {}): string {
  const params = new URLSearchParams();
  set(params, values);
  return hashOf(view, params);
}

/** Keeps what was chosen in the URL without going anywhere; undefined or "" takes it out. */
export function remember(values: Values): void {
  const { view, params } = readRoute();
  set(params, values);
  history.replaceState(null, "", hashOf(view, params));
}

function set(params: URLSearchParams, values: Values): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === "") params.delete(name);
    else params.set(name, String(value));
  }
}

/** A comma is readable as it is. */
function hashOf(view: string, params: URLSearchParams): string {
  const query = params.toString().replaceAll("%2C", ",");
  return `#/${view}${query && `?${query}`}`;
}
