import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";
import { shapeOf } from "../../sim/cost/model-config.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import { modelNamed } from "../../sim/cost/models.ts";
import { whyUnreadable } from "../../traces/bytes.ts";
import { readTextFile } from "../../traces/read-text.ts";
import { profilesFolder } from "../package.ts";

/** A model's sizes in the fields of a Hugging Face config.json. */
export const configFile = "config.json";

/** The operator times of one model on one device, as a folder. */
export interface ProfileFolder {
  /** Name of the folder. */
  readonly name: string;
  readonly folder: string;
  /** Names of the device and the model as `--gpu` and `--model` have them, or as they are in meta.yaml if kvlab has none. */
  readonly gpu: string;
  readonly model: string;
  /** Degrees of tensor parallelism that were measured. */
  readonly tensorParallel: readonly number[];
  /** The engine, such as "vLLM 0.19.0", and when it was measured, as in meta.yaml. */
  readonly engine: string;
  readonly measuredAt: string;
  /** Most tokens of a measured step, and most sequences. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  /** By degree, `OperatorProfile.skew`. */
  readonly skew: Readonly<Record<string, number>>;
  /** `OperatorProfile.padded`. */
  readonly padded?: boolean;
  /** The model's sizes, if the folder has its config.json. */
  readonly shape?: ModelShape;
}

interface MetaFile {
  readonly hardware?: unknown;
  readonly model?: unknown;
  readonly tp_degrees?: unknown;
  readonly vllm_version?: unknown;
  readonly engine?: unknown;
  readonly profiled_at?: unknown;
  readonly cuda_graphs?: unknown;
  readonly engine_effective?: { readonly max_num_batched_tokens?: unknown; readonly max_num_seqs?: unknown };
  readonly skew_fit?: { readonly per_tp?: Readonly<Record<string, { readonly alpha_default?: unknown }>> };
}

/** The profiles below a folder, by default those of the package. @throws InputError if one is malformed */
export async function listProfiles(folder: string = profilesFolder): Promise<ProfileFolder[]> {
  const names = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw new InputError(`${folder}: ${whyUnreadable(error)}`);
  });
  if (names.some(({ name }) => name === "meta.yaml")) return [await profileFolder(folder)];
  const folders = names.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return await Promise.all(folders.sort().map((name) => profileFolder(join(folder, name))));
}

let ofPackage: Promise<ProfileFolder[]> | undefined;

/** The profiles of the package, which are read once per process. */
export async function packageProfiles(): Promise<ProfileFolder[]> {
  ofPackage ??= listProfiles();
  return await ofPackage;
}

/** A profile by its folder, or by the name of one of the package. @throws InputError */
export async function profileNamed(name: string): Promise<ProfileFolder> {
  if (/[/\\]|^\.\.?$/.test(name)) return await profileFolder(name);
  const known = await packageProfiles();
  const found = known.find((profile) => profile.name === name);
  if (found) return found;
  const names = known.map((profile) => profile.name);
  const near = nearest(name, names);
  const hint = near
    ? `did you mean "${near}"?`
    : `expected a path with a /, or one of ${names.join(", ")}; kvlab profiles describes them`;
  throw new InputError(`no profile "${name}": ${hint}`);
}

/** The package's profile of a model on a device; undefined if it has none for this degree of tensor parallelism. */
export async function profileOf(
  gpu: string,
  model: string,
  tensorParallel: number,
): Promise<ProfileFolder | undefined> {
  const known = await packageProfiles();
  return known.find((one) => one.gpu === gpu && one.model === model && one.tensorParallel.includes(tensorParallel));
}

async function profileFolder(folder: string): Promise<ProfileFolder> {
  const path = join(folder, "meta.yaml");
  const text = await readTextFile(path);
  let meta: MetaFile;
  try {
    meta = parse(text) as MetaFile;
  } catch (error) {
    throw new InputError(`${path}: is not YAML (${(error as Error).message.split("\n")[0]})`);
  }
  const field = (name: "hardware" | "model"): string => {
    const value = meta?.[name];
    if (typeof value === "string") return value;
    throw new InputError(`${path}: ${name} is ${JSON.stringify(value)}, expected a name`);
  };
  const degrees = meta?.tp_degrees;
  if (!Array.isArray(degrees) || !degrees.every((degree) => Number.isSafeInteger(degree) && degree > 0))
    throw new InputError(`${path}: tp_degrees is ${JSON.stringify(degrees)}, expected a list of numbers`);
  const [hardware, model] = [field("hardware"), field("model")];
  const shape = await shapeIn(folder, model);
  return {
    name: folder.replace(/[/\\]+$/, "").replace(/^.*[/\\]/, ""),
    folder,
    gpu: nameOr(hardware, () => hardwareNamed(hardware).name),
    model: nameOr(model, () => modelNamed(model).name),
    tensorParallel: degrees as number[],
    engine: meta.vllm_version === undefined ? String(meta.engine ?? "unknown") : `vLLM ${String(meta.vllm_version)}`,
    measuredAt: String(meta.profiled_at ?? "unknown"),
    maxTokens: Number(meta.engine_effective?.max_num_batched_tokens ?? 0),
    maxSequences: Number(meta.engine_effective?.max_num_seqs ?? 0),
    skew: Object.fromEntries(
      Object.entries(meta.skew_fit?.per_tp ?? {}).map(([degree, fit]) => [degree, shareFrom(fit?.alpha_default, path)]),
    ),
    ...(meta.cuda_graphs === false && { padded: false }),
    ...(shape && { shape }),
  };
}

/** The sizes in the folder's config.json, for models that the simulator has no name for. */
async function shapeIn(folder: string, model: string): Promise<ModelShape | undefined> {
  if (!(await readdir(folder)).includes(configFile)) return undefined;
  const path = join(folder, configFile);
  const text = await readTextFile(path);
  try {
    return shapeOf(model, JSON.parse(text), path);
  } catch (error) {
    if (error instanceof InputError) throw error;
    throw new InputError(`${path}: is not JSON (${(error as Error).message})`);
  }
}

function nameOr(given: string, known: () => string): string {
  try {
    return known();
  } catch {
    return given;
  }
}

function shareFrom(value: unknown, path: string): number {
  if (typeof value === "number" && value >= 0 && value <= 1) return value;
  throw new InputError(`${path}: alpha_default is ${JSON.stringify(value)}, expected a share from 0 to 1`);
}
