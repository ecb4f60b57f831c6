import { type BackendName, backendNamed, backendNames, defaultBackend } from "../../engine/backends.ts";

/** The program part that runs the policy code: `cache` (no clock), `sim` (virtual time) or an engine backend (real time). */
export type Target = "cache" | "sim" | BackendName;

export const targets: readonly Target[] = ["cache", "sim", ...backendNames];

/** A target that is an engine backend. */
export const isEngine = (target: string): target is BackendName => backendNamed(target) !== undefined;

/** The backend of an engine target; the default backend of a target without an engine. */
export const backendOf = (target: string) => backendNamed(target) ?? defaultBackend;
