import { counted } from "../../core/counted.ts";
import type { EngineBackend } from "../../engine/backend.ts";
import { type BackendName, backendNamed, backendNames, defaultBackend } from "../../engine/backends.ts";

/** The program part that runs the policy code: `cache` (no clock), `sim` (virtual time) or an engine backend (real time). */
export type Target = "cache" | "sim" | BackendName;

export const targets: readonly Target[] = ["cache", "sim", ...backendNames];

/** A target that is an engine backend. */
export const isEngine = (target: string): target is BackendName => backendNamed(target) !== undefined;

/** The backend of an engine target; the default backend of a target without an engine. */
export const backendOf = (target: string) => backendNamed(target) ?? defaultBackend;

/** The device of a run in texts: "the CPU, 2 threads". */
export const deviceText = ({ device }: EngineBackend, threads: number | null | undefined): string =>
  typeof threads === "number" ? `${device}, ${counted(threads, "thread")}` : device;
