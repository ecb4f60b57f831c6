import { stat } from "node:fs/promises";
import { basename, extname, resolve } from "node:path";
import type { BuildFailure, Plugin as Bundling } from "esbuild";
import { InputError, PolicyError } from "../../core/errors.ts";
import type {
  ColumnNeeds,
  EvictionContext,
  EvictionPlugin,
  EvictionPolicy,
  IndexContext,
  IndexPlugin,
  Plugin,
} from "../../core/plugins/index.ts";
import { evictionRegistry, indexRegistry, type Registry } from "../../policies/registry.ts";
import { entryUrl } from "../package.ts";
import { loadUserCode, messageOf } from "./user-code.ts";

/** An eviction policy from a user's file. */
export interface UserPolicy extends EvictionPlugin {
  /** As the user named it. */
  readonly file: string;
  /** The request that the policy was last told of. */
  currentRequest(): number | undefined;
}

export const isUserPolicy = (eviction: EvictionPlugin): eviction is UserPolicy => "file" in eviction;

/** Whether `--eviction` or `--index` got a file and not a name. */
export const isPolicyFile = (text: string) => /[/\\]/.test(text) || isProgram(text);
const isProgram = (text: string) => /\.[cm]?[jt]s$/.test(text);

/**
 * Loads a user's policy, in TypeScript or JavaScript, from any folder. Every call of it is guarded, so that its mistakes
 * are told apart from ours.
 *
 * @throws InputError if the file is not there, cannot be read as a program, or exports no policy.
 */
export async function loadUserPolicy(file: string): Promise<UserPolicy> {
  const plugin = await loadUserPlugin(file);
  if (isIndex(plugin)) throw new InputError(`${file}: exports an index, expected ${aPolicy}`);
  const seen: Seen = { request: undefined };
  return {
    ...plugin,
    file,
    currentRequest: () => seen.request,
    create: (context) => guarded(file, plugin, context, seen),
  };
}

const aPolicy = "an eviction policy { name, create }";

/** An index says which rules it supports; an eviction policy does not. */
export const isIndex = (plugin: EvictionPlugin | IndexPlugin): plugin is IndexPlugin => "supports" in plugin;

/**
 * Loads a user's eviction policy or index as it is, with nothing around its calls. `running` is told when the file's own
 * code begins to run; `expected` is what to say if there is neither.
 *
 * @throws InputError if the file is not there, cannot be read as a program, or exports neither.
 */
export async function loadUserPlugin(
  file: string,
  running = () => {},
  expected = `${aPolicy}; kvlab init policy writes an example`,
): Promise<EvictionPlugin | IndexPlugin> {
  const found = await stat(file).catch(() => undefined);
  if (!found) throw new InputError(`${file}: no such file`);
  if (!found.isFile())
    throw new InputError(`${file}: is ${found.isDirectory() ? "a directory" : "no regular file"}, expected a file`);
  if (!isProgram(file)) throw new InputError(`${file}: is no program, expected a .ts or .js file`);
  const exports = await importFile(file, running);
  let plugin: EvictionPlugin | IndexPlugin;
  try {
    plugin = pluginOf(file, exports, expected);
  } catch (error) {
    throw error instanceof InputError ? error : new InputError(`${file}: ${messageOf(error)}`);
  }
  const why = badPolicyName(plugin.name, isIndex(plugin) ? indexRegistry : evictionRegistry);
  if (why !== undefined) throw new InputError(`${file}: its name is ${shortened(plugin.name)}, ${why}`);
  return plugin;
}

const longestName = 40;

/** What speaks against a name for a policy of one's own; undefined if nothing does. */
export function badPolicyName(name: unknown, registry: Registry<Plugin> = evictionRegistry): string | undefined {
  if (typeof name !== "string" || !/^[A-Za-z][A-Za-z0-9_-]*$/.test(name))
    return "expected a letter, then letters, digits, - or _";
  if (name.length > longestName) return `expected at most ${longestName} letters`;
  if (registry.all.some((plugin) => plugin.name === name)) return "as one of kvlab's own is; choose another";
  return undefined;
}

const shortened = (name: unknown) => {
  const text = typeof name === "string" ? JSON.stringify(name) : typeof name;
  return text.length > 2 * longestName ? `${text.slice(0, longestName)}…` : text;
};

/** `import … from "kvlab"` means this very program, wherever the file is. */
const kvlabItself: Bundling = {
  name: "kvlab",
  setup(bundler) {
    bundler.onResolve({ filter: /^kvlab$/ }, () => ({ path: entryUrl, external: true }));
  },
};

/**
 * The file and what it imports, as one module. Bundled, because then it does not matter whether the folder it lies in
 * has a package.json that makes it a CommonJS module.
 */
async function importFile(file: string, running: () => void): Promise<Readonly<Record<string, unknown>>> {
  // Loaded only now, for most commands do without it.
  const { build } = await import("esbuild");
  try {
    return await loadUserCode(file, async () => {
      const { outputFiles } = await build({
        entryPoints: [resolve(file)],
        bundle: true,
        write: false,
        format: "esm",
        platform: "node",
        target: "node20",
        logLevel: "silent",
        tsconfigRaw: {},
        plugins: [kvlabItself],
      });
      running();
      return `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`;
    });
  } catch (error) {
    const [first] = (error as Partial<BuildFailure> | undefined)?.errors ?? [];
    if (!first?.text) throw new InputError(`${file}: ${messageOf(error).replace(entryUrl, "kvlab")}`);
    const { location, text } = first;
    const at = location
      ? `${file === location.file || isSame(file, location.file) ? file : location.file}:${location.line}`
      : file;
    throw new InputError(`${at}: ${text}`);
  }
}

const isSame = (a: string, b: string) => resolve(a) === resolve(b);

/** The default export, or the only one that can be a policy; a bare `create` function is named after its file. */
function pluginOf(file: string, exports: Record<string, unknown>, expected: string): EvictionPlugin | IndexPlugin {
  const named = basename(file, extname(file));
  const found =
    "default" in exports
      ? [asPlugin(exports["default"], named)].filter((plugin) => plugin !== undefined)
      : Object.values(exports).flatMap((value) => asPlugin(value, named) ?? []);
  if (found.length === 1) return found[0];
  const names = Object.keys(exports);
  const what = names.length === 0 ? "nothing" : names.join(", ");
  throw new InputError(
    found.length === 0
      ? `${file}: exports ${what}, expected ${expected}`
      : `${file}: exports ${found.length} policies (${what}), expected one, or a default export`,
  );
}

function asPlugin(value: unknown, named: string): EvictionPlugin | IndexPlugin | undefined {
  if (typeof value === "function")
    return { name: named, about: "", source: "", create: value as EvictionPlugin["create"] };
  if (typeof value !== "object" || value === null) return undefined;
  const { name, about, source, create, ...own } = value as Partial<
    Record<keyof (EvictionPlugin & IndexPlugin), unknown>
  >;
  if (typeof create !== "function") return undefined;
  const said = {
    name: name === undefined ? named : (name as string),
    about: typeof about === "string" ? about : "",
    source: typeof source === "string" ? source : "",
  };
  if (typeof own.supports === "object" && own.supports !== null) {
    return {
      ...said,
      supports: own.supports as IndexPlugin["supports"],
      ...(typeof own.defaults === "object" && { defaults: own.defaults as NonNullable<IndexPlugin["defaults"]> }),
      ...(own.none === true && { none: true as const }),
      create: (context: IndexContext, blockCount: number) => create.call(value, context, blockCount),
    };
  }
  return {
    ...said,
    ...(own.columns !== undefined && { columns: own.columns as ColumnNeeds }),
    create: (context: EvictionContext) => create.call(value, context),
    ...(own.unlimited === true && { unlimited: true as const }),
    ...(own.offline === true && { offline: true as const }),
  };
}

const required = ["add", "remove", "victim"] as const;
const optional = ["published", "hit", "split", "resized", "prepare"] as const;
type Method = keyof EvictionPolicy;

/** What a policy has been told. */
interface Seen {
  request: number | undefined;
}

/** The policy with every call watched. @throws PolicyError with file, method and request. */
function guarded(file: string, plugin: EvictionPlugin, context: EvictionContext, seen: Seen): EvictionPolicy {
  seen.request = undefined;
  const when = () => (seen.request === undefined ? "" : ` at request ${seen.request}`);
  const watch = <Result>(method: string, call: () => Result): Result => {
    try {
      return call();
    } catch (error) {
      throw new PolicyError(`${file}: ${method}() threw${when()}: ${messageOf(error)}`);
    }
  };
  const policy: EvictionPolicy = watch("create", () => plugin.create(context));
  for (const method of required) {
    if (typeof policy?.[method] === "function") continue;
    throw new PolicyError(`${file}: create() gave no policy with ${method}(), expected ${required.join(", ")}`);
  }
  const watched: Record<string, (...args: never[]) => unknown> = {
    begin(...args: Parameters<NonNullable<EvictionPolicy["begin"]>>) {
      seen.request = args[0].id;
      if (policy.begin) watch("begin", () => policy.begin?.(...args));
    },
  };
  for (const method of [...required, ...optional] as Method[]) {
    const own = policy[method] as ((...args: unknown[]) => unknown) | undefined;
    if (own) watched[method] = (...args: unknown[]) => watch(method, () => own.apply(policy, args));
  }
  watched["victim"] = (now: number) => {
    const victim: unknown = watch("victim", () => policy.victim(now));
    if (victim === undefined || typeof victim === "number") return victim;
    const gave = victim === null ? "null" : typeof victim;
    throw new PolicyError(`${file}: victim() gave ${gave}${when()}, expected an entry or undefined`);
  };
  return watched as unknown as EvictionPolicy;
}
