/** The view and its parameters, in the URL's hash: `#/name?key=value`. */
export interface Route {
  /** Empty if the hash names no view. */
  readonly name: string;
  readonly params: URLSearchParams;
}

export function readRoute(): Route {
  const [name, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { name, params: new URLSearchParams(query) };
}

type Values = Readonly<Record<string, string | number | undefined>>;

/** The hash of a view. */
export function linkTo(name: string, values: Values = {}): string {
  const params = new URLSearchParams();
  setAll(params, values);
  return hashOf(name, params);
}

/** Sets parameters of the current route without a navigation; `undefined` and "" delete a parameter. */
export function updateRoute(values: Values): void {
  const { name, params } = readRoute();
  setAll(params, values);
  history.replaceState(null, "", hashOf(name, params));
}

function setAll(params: URLSearchParams, values: Values): void {
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === "") params.delete(key);
    else params.set(key, String(value));
  }
}

/** Commas stay unescaped, so that lists of runs are readable. */
function hashOf(name: string, params: URLSearchParams): string {
  const query = params.toString().replaceAll("%2C", ",");
  return `#/${name}${query && `?${query}`}`;
}
