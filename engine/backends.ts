import { InputError } from "../core/errors.ts";
import type { StepLoadExtension } from "../core/serving/step-load.ts";
import type { EngineBackend } from "./backend.ts";
import { cpuBackend } from "./cpu/backend.ts";
import { cudaBackend } from "./cuda/backend.ts";

/** All backends of the engine, the default one first. `--target`, `kvlab doctor` and their messages are made from this list. */
export const backends = [cpuBackend, cudaBackend] as const satisfies readonly EngineBackend[];

export type BackendName = (typeof backends)[number]["name"];

export const defaultBackend = backends[0];

export const backendNames: readonly BackendName[] = backends.map(({ name }) => name);

/** The backends to which `--threads` applies. */
export const threadedBackendNames = backends.flatMap(({ name, hasThreads }) => (hasThreads ? name : []));

/** The backends to which `--gpu-memory` applies. */
export const backendNamesWithMemory = backends.flatMap(({ name, memory }) => ("totalBytes" in memory ? name : []));

/** The backend of that name; undefined if there is none. */
export function backendNamed(name: BackendName): EngineBackend;
export function backendNamed(name: string): EngineBackend | undefined;
export function backendNamed(name: string): EngineBackend | undefined {
  return backends.find((backend) => backend.name === name);
}

/**
 * The division of steps that a report or a cost file states. Rules without a `backend` are those of the default one.
 *
 * @throws InputError that begins with `where`
 */
export function restoreCalls(rules: unknown, where: string): StepLoadExtension {
  const { backend: name = defaultBackend.name } = (rules ?? {}) as { readonly backend?: unknown };
  const calls = backendNamed(String(name))?.calls;
  if (calls) return calls.restore(rules, where);
  const dividing = backendNames.filter((one) => backendNamed(one).calls);
  throw new InputError(`${where}: calls.backend is ${JSON.stringify(name)}, expected one of ${dividing.join(", ")}`);
}
