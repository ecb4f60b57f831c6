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
  history.replaceState(null, "", updated(values));
}

/** The same with a new entry in the browser's history: Back shows the view with the earlier parameters. */
export function pushRoute(values: Values): void {
  history.pushState(null, "", updated(values));
}

function updated(values: Values): string {
  const { name, params } = readRoute();
  setAll(params, values);
  return hashOf(name, params);
}

/** Selections above this length are written as codes: a link of 17 kB is cut off by chats and mail programs. */
const maxListLength = 500;

/** A list of run ids as a parameter, separated by commas; a long list as `~` and a code of seven letters for each id. */
export function idList(ids: readonly string[]): string {
  const text = ids.map((id) => id.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");
  return text.length <= maxListLength ? text : `~${ids.map(codeOf).join("")}`;
}

/** The ids of a parameter that `idList` wrote; codes are resolved among `known`, and kept where no id has them. */
export function idsIn(list: string | null, known: readonly string[]): string[] {
  if (!list) return [];
  if (!list.startsWith("~")) return list.split(",").filter(Boolean).map(decoded);
  const byCode = new Map(known.map((id) => [codeOf(id), id]));
  return (list.slice(1).match(/.{1,7}/g) ?? []).map((code) => byCode.get(code) ?? `~${code}`);
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

/** 32 bits of the id (FNV-1a), base 36. */
function codeOf(id: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(id)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash.toString(36).padStart(7, "0");
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
