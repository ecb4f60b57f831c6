import { InputError } from "../../core/errors.ts";
import type { Hardware } from "../../sim/cost/hardware.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import { type ProfileFolder, packageProfiles, profileNamed, profileOf } from "../profiles/catalogue.ts";
import { expertDevices, type Parallelism } from "./parallelism.ts";
import type { SimulationOptions } from "./simulation-options.ts";

/** `--cost profile:NAME`, and `--cost roofline`. */
export const profilePrefix = "profile:";
export const rooflineName = "roofline";

/** What a profile was measured for. */
interface System {
  readonly model: ModelShape;
  readonly hardware: Hardware;
  readonly parallelism: Parallelism;
}

type ProfileOptions = Pick<SimulationOptions, "cost" | "efficiency" | "kvDtype" | "gpu" | "model">;

/** The profile that `--cost profile:NAME` names. @throws InputError */
export async function givenProfile({ cost }: ProfileOptions): Promise<ProfileFolder | undefined> {
  if (cost === "profile" || cost === profilePrefix)
    throw new InputError(
      `--cost is "${cost}", expected profile:NAME (kvlab profiles lists the names); without --cost, the profile of --gpu, --model and --tp is used if there is one`,
    );
  if (typeof cost !== "string" || !cost.startsWith(profilePrefix)) return undefined;
  return await profileNamed(cost.slice(profilePrefix.length));
}

/**
 * The profile of a simulation's operator times: the given one, or the package's profile of this model on this device, if it has one
 * and no other cost model was chosen.
 *
 * @throws InputError if the given profile was measured for another model, device or degree of tensor parallelism
 */
export async function profileFor(
  options: ProfileOptions,
  given: ProfileFolder | undefined,
  system: System,
): Promise<ProfileFolder | undefined> {
  const { model, hardware, parallelism } = system;
  const { tensorParallel } = parallelism;
  const dividesExperts = areExpertsDivided(system);
  if (given === undefined) {
    if (options.cost !== undefined || options.efficiency !== undefined || isOtherType(options)) return undefined;
    if (dividesExperts) return undefined;
    return await profileOf(hardware.name, model.name, tensorParallel);
  }
  for (const [option, wanted, measured] of [
    ["--gpu", hardware.name, given.gpu],
    ["--model", model.name, given.model],
  ])
    if (wanted !== measured)
      throw new InputError(`--cost ${options.cost} was measured with ${option} ${measured}, not ${wanted}`);
  if (isOtherType(options))
    throw new InputError(
      `--cost ${options.cost} was measured with keys and values of the model's type, not ${options.kvDtype}`,
    );
  if (model.window)
    throw new InputError(`--cost ${options.cost}: ${model.name} has sliding-window layers, which profiles do not have`);
  if (dividesExperts) throw new InputError(`--cost ${options.cost} was measured with whole experts; give --ep`);
  return given;
}

/** A sentence for the output if the package's profile of this model on this device is not used because of other options. */
export async function unusedProfileNote(options: ProfileOptions, system: System): Promise<string | undefined> {
  if (options.cost !== undefined || options.efficiency !== undefined) return undefined;
  const { model, hardware, parallelism } = system;
  const found = (await packageProfiles()).find((one) => one.gpu === hardware.name && one.model === model.name);
  if (found === undefined) return undefined;
  const { tensorParallel } = parallelism;
  const isMeasured = found.tensorParallel.includes(tensorParallel);
  const difference = isOtherType(options)
    ? `with keys and values of the model's type, not ${options.kvDtype}`
    : areExpertsDivided(system)
      ? "with whole experts, which --ep divides among the GPUs"
      : `with --tp ${found.tensorParallel.join(", ")}, not ${tensorParallel}`;
  if (isMeasured && !isOtherType(options) && !areExpertsDivided(system)) return undefined;
  return `Profile ${found.name} was measured ${difference}: step times are those of the roofline.`;
}

/** Whether each expert is divided among the devices. */
const areExpertsDivided = ({ model, parallelism }: System) =>
  expertDevices(model, parallelism) > 1 && !parallelism.expertParallel;

const isOtherType = ({ kvDtype = "auto" }: ProfileOptions) => kvDtype !== "auto";
