import { InputError } from "../../core/errors.ts";
import { backendNames, backendNamesWithMemory, threadedBackendNames } from "../../engine/backends.ts";
import { optionNames, type SimulationOptions } from "./simulation-options.ts";
import { isEngine, type Target } from "./target.ts";

/** The options that a replay without a clock uses. */
const withoutClock: readonly (keyof SimulationOptions)[] = [
  "model",
  "tp",
  "kvDtype",
  "capacity",
  "schedulerOption",
  "maxOutput",
];

/** Options of the simulator only, and of a real engine only. */
export const simulatorOptions: readonly (keyof SimulationOptions)[] = [
  ...([
    "gpu",
    "tp",
    "dp",
    "ep",
    "expertExchange",
    "pp",
    "kvDtype",
    "gpuMemory",
    "cost",
    "efficiency",
    "replicas",
    "router",
    "routerOption",
  ] as const),
  ...(["prefillReplicas", "decodeReplicas", "decodeRouter", "kvLink", "speculate", "network"] as const),
];
const engineOptions: readonly (keyof SimulationOptions)[] = ["threads", "bits", "pace", "outputLengths", "fold"];

/**
 * `used` are the options that have an effect without a clock.
 *
 * @throws InputError if an option does not apply to the target, or two options contradict each other
 */
export function checkTarget(
  options: SimulationOptions & { readonly target: Target; readonly timeline?: string; readonly blocks?: unknown },
  used = withoutClock,
): void {
  if (options.rate !== undefined && options.speed !== undefined)
    throw new InputError("--rate and --speed exclude each other: both set the arrival rate");
  if (options.pace === "none" && (options.rate ?? options.speed) !== undefined)
    throw new InputError(
      `--pace none and --${options.rate === undefined ? "speed" : "rate"} exclude each other: all requests arrive at once`,
    );
  const other = isEngine(options.target) ? simulatorOptions : engineOptions;
  const applies = (name: keyof SimulationOptions) => targetsOf(name).includes(options.target);
  const misplaced = other.find((name) => options[name] !== undefined && !applies(name));
  if (misplaced && (options.target !== "cache" || engineOptions.includes(misplaced)))
    throw new InputError(`--${optionNames[misplaced]} needs --target ${targetsOf(misplaced).join(" or ")}`);
  const sized = options.capacity === undefined ? options.blocks && "blocks" : "capacity";
  if (isEngine(options.target) && options.gpuMemory !== undefined && sized)
    throw new InputError(`--gpu-memory and --${sized} exclude each other: both set the size of the cache`);
  if (options.target === "cache") {
    const all = [...Object.keys(optionNames), "timeline"] as (keyof SimulationOptions)[];
    const given = all.find((name) => !used.includes(name) && options[name] !== undefined);
    if (given) {
      const reason = withoutClock.includes(given) ? "" : ": target cache has no clock";
      throw new InputError(`--${optionNames[given] ?? given} needs --target sim${reason}`);
    }
    const ofModel = (["model", "tp", "kvDtype"] as const).find((name) => options[name] !== undefined);
    if (ofModel && options.capacity === undefined && used.includes("capacity"))
      throw new InputError(`--${optionNames[ofModel]} needs --target sim or --capacity`);
    if (options.capacity !== undefined && options.model === undefined)
      throw new InputError("--capacity needs --model, which determines the bytes of a token");
  }
  if (options.cost !== undefined && options.efficiency !== undefined)
    throw new InputError("--cost and --efficiency exclude each other: the factors belong to the roofline model");
}

/** The targets of an option of the simulator or of engines. */
function targetsOf(name: keyof SimulationOptions): readonly Target[] {
  if (name === "gpuMemory") return ["sim", ...backendNamesWithMemory];
  if (simulatorOptions.includes(name)) return ["sim"];
  return name === "threads" ? threadedBackendNames : backendNames;
}
