import { InputError } from "../../core/errors.ts";
import { backendNames } from "../../engine/backends.ts";
import { optionNames, type SimulationOptions } from "./simulation-options.ts";
import { isEngine, type Target } from "./target.ts";

/** Of these options, what a replay without a clock has a use for. */
const withoutClock: readonly (keyof SimulationOptions)[] = [
  "model",
  "tp",
  "kvDtype",
  "capacity",
  "schedulerOption",
  "maxOutput",
];

/** What only the simulator has a use for, and what only a real engine. */
export const ofSimulator: readonly (keyof SimulationOptions)[] = [
  ...(["gpu", "tp", "kvDtype", "gpuMemory", "cost", "efficiency", "replicas", "router", "routerOption"] as const),
];
const ofEngine: readonly (keyof SimulationOptions)[] = ["threads", "bits", "pace", "answers", "fold"];

/**
 * `used` are those that have a meaning without the simulator.
 *
 * @throws InputError if an option of the simulator is given without it, or two contradict each other.
 */
export function checkTarget(
  options: SimulationOptions & { readonly target: Target; readonly timeline?: string },
  used = withoutClock,
): void {
  if (options.rate !== undefined && options.speed !== undefined)
    throw new InputError("--rate and --speed exclude each other: both say how fast requests come");
  if (options.pace === "none" && (options.rate ?? options.speed) !== undefined)
    throw new InputError(
      `--pace none and --${options.rate === undefined ? "speed" : "rate"} exclude each other: all requests come at once`,
    );
  const [other, target] = isEngine(options.target) ? [ofSimulator, "sim"] : [ofEngine, backendNames.join(" or ")];
  const misplaced = other.find((name) => options[name] !== undefined);
  if (misplaced && (options.target !== "cache" || ofEngine.includes(misplaced)))
    throw new InputError(`--${optionNames[misplaced]} goes with --target ${target}`);
  if (options.target === "cache") {
    const all = [...Object.keys(optionNames), "timeline"] as (keyof SimulationOptions)[];
    const given = all.find((name) => !used.includes(name) && options[name] !== undefined);
    if (given) {
      const why = withoutClock.includes(given) ? "" : ": a replay without it has no clock";
      throw new InputError(`--${optionNames[given] ?? given} goes with --target sim${why}`);
    }
    const ofModel = (["model", "tp", "kvDtype"] as const).find((name) => options[name] !== undefined);
    if (ofModel && options.capacity === undefined)
      throw new InputError(`--${optionNames[ofModel]} goes with --target sim, or with --capacity`);
    if (options.capacity !== undefined && options.model === undefined)
      throw new InputError("--capacity needs --model, which says how much a token takes");
  }
  if (options.cost !== undefined && options.efficiency !== undefined)
    throw new InputError("--cost and --efficiency exclude each other: measured times have no factors");
}
