import { stat } from "node:fs/promises";
import { basename, extname, resolve } from "node:path";
import type { BuildFailure, BuildOptions, Plugin as Bundling } from "esbuild";
import { InputError } from "../../core/errors.ts";
import { entryUrl } from "../package.ts";
import { kinds, type PluginKind, type Plugins } from "./kinds.ts";
import { loadUserCode, messageOf } from "./user-code.ts";

/** True if an option's value is a file and not a name. */
export const isPluginFile = (text: string) => /[/\\]/.test(text) || isProgram(text);
export const isProgram = (text: string) => /\.[cm]?[jt]s$/.test(text);

/**
 * The plug-in that a file exports, without a guard around its calls. `onLoad` is called when the file's code starts to run.
 *
 * @throws InputError if the file does not exist, cannot be read as a program, or exports no plug-in of this kind
 */
export async function loadPlugin<K extends PluginKind>(file: string, kind: K, onLoad = () => {}): Promise<Plugins[K]> {
  const exports = await programIn(file, onLoad);
  return inOneLine(file, () => pluginOf(file, exports, kind));
}

/** The plug-in that a file exports, of whichever kind it is. @throws InputError as `loadPlugin` does */
export async function loadAnyPlugin(file: string, onLoad = () => {}) {
  const exports = await programIn(file, onLoad);
  return inOneLine(file, () => {
    const found = (Object.keys(kinds) as PluginKind[]).filter((kind) =>
      valuesOf(exports).some((value) => asPlugin(file, value, kind)),
    );
    const kind = found[0] ?? "eviction";
    return { kind, plugin: pluginOf(file, exports, kind) };
  });
}

/** Reports an exception of a getter of the exported object as an error of the file. */
function inOneLine<Result>(file: string, act: () => Result): Result {
  try {
    return act();
  } catch (error) {
    throw error instanceof InputError ? error : new InputError(`${file}: ${messageOf(error)}`);
  }
}

async function programIn(file: string, onLoad: () => void): Promise<Readonly<Record<string, unknown>>> {
  const found = await stat(file).catch(() => undefined);
  if (!found) throw new InputError(`${file}: no such file`);
  if (!found.isFile())
    throw new InputError(`${file}: is ${found.isDirectory() ? "a directory" : "not a regular file"}, expected a file`);
  if (!isProgram(file)) throw new InputError(`${file}: is not a program, expected a .ts or .js file`);
  return await importFile(file, onLoad);
}

/** `import … from "kvlab"` resolves to the running program, wherever the file is. */
const resolveKvlab: Bundling = {
  name: "kvlab",
  setup(bundler) {
    bundler.onResolve({ filter: /^kvlab$/ }, () => ({ path: entryUrl, external: true }));
  },
};

/** The paths of a file and of the files that it imports, in a fixed order. @throws InputError if one is not found */
export async function importsOf(file: string): Promise<string[]> {
  const { build } = await import("esbuild");
  try {
    const { metafile } = await build({ ...bundling(file), metafile: true });
    return Object.keys(metafile.inputs);
  } catch (error) {
    throw unbundled(file, error);
  }
}

const bundling = (file: string) =>
  ({
    entryPoints: [resolve(file)],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "node20",
    logLevel: "silent",
    tsconfigRaw: {},
    plugins: [resolveKvlab],
  }) as const satisfies BuildOptions;

/** The error of a file that is no program, with its line. */
function unbundled(file: string, error: unknown): InputError {
  const [first] = (error as Partial<BuildFailure> | undefined)?.errors ?? [];
  if (!first?.text) return new InputError(`${file}: ${messageOf(error).replace(entryUrl, "kvlab")}`);
  const { location, text } = first;
  const at = location
    ? `${file === location.file || isSame(file, location.file) ? file : location.file}:${location.line}`
    : file;
  return new InputError(`${at}: ${text}`);
}

/**
 * The file and its imports as one module. Bundled, so that a package.json beside the file that makes it a CommonJS module has
 * no effect.
 */
async function importFile(file: string, onLoad: () => void): Promise<Readonly<Record<string, unknown>>> {
  // Loaded on demand, since most commands do not need it.
  const { build } = await import("esbuild");
  try {
    return await loadUserCode(file, async () => {
      const { outputFiles } = await build(bundling(file));
      onLoad();
      return `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`;
    });
  } catch (error) {
    throw unbundled(file, error);
  }
}

const isSame = (a: string, b: string) => resolve(a) === resolve(b);

/** The default export alone, or all exports. */
const valuesOf = (exports: Readonly<Record<string, unknown>>) =>
  "default" in exports ? [exports["default"]] : Object.values(exports);

/** The default export, or the only export that has the shape of the kind. */
function pluginOf<K extends PluginKind>(file: string, exports: Readonly<Record<string, unknown>>, kind: K): Plugins[K] {
  const found = valuesOf(exports).flatMap((value) => asPlugin(file, value, kind) ?? []);
  if (found.length === 1) {
    const problem = badPluginName(found[0].name, kind);
    if (problem === undefined) return found[0];
    throw new InputError(`${file}: its name is ${shortened(found[0].name)}, ${problem}`);
  }
  const names = Object.keys(exports);
  const all = names.length === 0 ? "nothing" : names.join(", ");
  const { label, shape, plural } = kinds[kind];
  if (found.length > 1)
    throw new InputError(`${file}: exports ${found.length} ${plural} (${all}), expected one, or a default export`);
  const other = (Object.keys(kinds) as PluginKind[]).find((one) =>
    valuesOf(exports).some((value) => asPlugin(file, value, one)),
  );
  const exported = other === undefined ? all : kinds[other].label;
  const template = kind === "eviction" ? "policy" : kind;
  throw new InputError(
    `${file}: exports ${exported}, expected ${label} ${shape}; kvlab init ${template} writes an example`,
  );
}

/** A value as a plug-in of a kind; a bare `create` function is named after its file. Undefined if it has another shape. */
function asPlugin<K extends PluginKind>(file: string, value: unknown, kind: K): Plugins[K] | undefined {
  const given = typeof value === "function" && kinds[kind].method === "create" ? { create: value } : value;
  if (typeof given !== "object" || given === null || !kinds[kind].hasShape(given)) return undefined;
  const members = given as Readonly<Record<string, unknown>>;
  const text = (name: string) => (typeof members[name] === "string" ? (members[name] as string) : "");
  const { method } = kinds[kind];
  const call = members[method] as (...args: unknown[]) => unknown;
  return {
    ...members,
    name: members["name"] === undefined ? basename(file, extname(file)) : members["name"],
    about: text("about"),
    source: text("source"),
    [method]: (...args: unknown[]) => call.apply(given, args),
  } as unknown as Plugins[K];
}

const longestName = 40;

/** The problem of a name for a user's plug-in; undefined if the name is valid. */
export function badPluginName(name: unknown, kind: PluginKind): string | undefined {
  if (typeof name !== "string" || !/^[A-Za-z][A-Za-z0-9_-]*$/.test(name))
    return "expected a letter, then letters, digits, - or _";
  if (name.length > longestName) return `expected at most ${longestName} letters`;
  if (kinds[kind].builtIn().some((plugin) => plugin.name === name))
    return "which is the name of a built-in plug-in; choose another name";
  return undefined;
}

const shortened = (name: unknown) => {
  const text = typeof name === "string" ? JSON.stringify(name) : typeof name;
  return text.length > 2 * longestName ? `${text.slice(0, longestName)}…` : text;
};
