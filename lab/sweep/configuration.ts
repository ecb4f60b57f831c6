import { createHash } from "node:crypto";
import { InputError } from "../../core/errors.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";
import { readingOf } from "../input.ts";
import { version } from "../package.ts";
import { checkTarget } from "../run/check-target.ts";
import { type PartNames, type Parts, partsNamed, pluginNamed } from "../run/configuration.ts";
import { checkConflicts } from "../run/run-trace.ts";
import { modelFrom, simulatedDefaults } from "../run/simulation.ts";
import type { Target } from "../run/target.ts";
import type { InputFile } from "./input-files.ts";
import { pluginPath, type ResolvedOptions, type SweptOptions } from "./options.ts";

const parts = ["index", "eviction", "allocator", "scheduler"] as const;

/**
 * The options with the names of all plug-ins, without rules that are in effect anyway. Code of users' plug-ins is not run, so what
 * depends on it is checked by the run.
 *
 * @throws InputError if a name is unknown, an option does not apply to the target, or two contradict each other
 */
export async function resolve(options: SweptOptions): Promise<ResolvedOptions> {
  const { target = "cache", seed = 1, warmup = 0, rules = {}, ...others } = options;
  const isOurs = (name: keyof PartNames) => pluginPath(options[name]) === undefined;
  const named = Object.fromEntries(
    (["preset", ...parts] as const).filter(isOurs).map((name) => [name, options[name]]),
  ) as PartNames;
  const all = await partsNamed(named, isOurs("index") ? rules : {}, target);
  checkConflicts(options, all.eviction);
  checkTarget({ ...options, target });
  if (target === "sim") await checkSimulated(options);
  const { model, gpu } = simulatedDefaults;
  const applied = isOurs("index") ? await changing(rules, named, all, target) : rules;
  const resolved = {
    ...(target === "sim" && options.cost === undefined && { model, gpu }),
    ...others,
    ...Object.fromEntries(parts.map((name) => [name, options[name] ?? all[name].name])),
    ...(Object.keys(applied).length > 0 && { rules: applied }),
    ...{ target, seed, warmup },
  };
  return sorted(resolved) as ResolvedOptions;
}

/** The given rules without those whose value is that of the preset or the index anyway. */
async function changing(rules: Parts["rules"], named: PartNames, { index, rules: all }: Parts, target: Target) {
  const without = await partsNamed(named, {}, target).catch(() => undefined);
  if (without === undefined) return rules;
  const [given, initial] = [rulesFor(index, all), rulesFor(index, without.rules)];
  return Object.fromEntries(
    (Object.keys(rules) as (keyof typeof rules)[])
      .filter((name) => given[name] !== initial[name])
      .map((name) => [name, rules[name]]),
  );
}

/** @throws InputError if a name is unknown */
async function checkSimulated({ model, gpu, router, decodeRouter }: SweptOptions): Promise<void> {
  for (const [option, name] of Object.entries({ model, gpu, router }))
    if (name?.includes(",")) throw new InputError(`--${option} is "${name}", expected one name`);
  if (model !== undefined) await modelFrom(model);
  if (gpu !== undefined) hardwareNamed(gpu);
  for (const name of [router, decodeRouter])
    if (name !== undefined && pluginPath(name) === undefined) await pluginNamed("router", name);
}

/** With the fields of all objects in one order. */
function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, sorted(each)]),
  );
}

/** Hexadecimal digits of a key: 128 bits. */
const keyLength = 32;

/**
 * The name of a result: a hash of kvlab's version, the content of the trace and of all other files that are read, and all options
 * with their seed.
 */
export function keyOf(options: ResolvedOptions, trace: readonly InputFile[], inputs: readonly InputFile[]): string {
  const identity = { kvlab: version, trace: trace.map(({ sha256 }) => sha256), options, inputs };
  return createHash("sha256").update(JSON.stringify(identity)).digest("hex").slice(0, keyLength);
}

/** Equal for configurations that a worker reads one trace for. */
export const readingKey = (options: SweptOptions): string => JSON.stringify(sorted(readingOf(options)));
