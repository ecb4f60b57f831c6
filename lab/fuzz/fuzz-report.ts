import { type BackendName, backendNamed, defaultBackend } from "../../engine/backends.ts";
import { version } from "../package.ts";
import type { FuzzKind } from "./kinds.ts";
import type { Saved } from "./saved.ts";
import type { Finding, Searched } from "./search.ts";

/** One search and its result. */
export interface KindSearched extends Searched {
  readonly kind: FuzzKind;
  saved: Saved | undefined;
}

export interface Fuzzed {
  readonly backend: BackendName;
  readonly seed: number;
  readonly interrupted: boolean;
  readonly wallMs: number;
  readonly kinds: readonly KindSearched[];
}

/** The document that `fuzz --json` prints: schema fuzz/1. Fields may be added, none renamed. */
export function fuzzDocument({ backend, seed, interrupted, wallMs, kinds }: Fuzzed) {
  return {
    schema: "fuzz/1",
    kvlab: version,
    backend: backendNamed(backend).reportName,
    seed,
    interrupted,
    cases: kinds.reduce((total, { cases }) => total + cases, 0),
    found: kinds.filter(({ finding }) => finding).length,
    wallMs,
    kinds: kinds.map(({ kind, cases, refused, decisions, finding, saved }) => ({
      name: kind.name,
      says: kind.property,
      cases,
      refused,
      decisions,
      finding: finding
        ? {
            name: saved?.name ?? null,
            message: finding.message,
            requests: finding.trace.requestCount,
            setup: finding.setup,
            trace: saved?.traceFile ?? null,
            replay: saved ? replayCommand(saved, backend) : null,
            operations: saved?.operationsFile ?? null,
            command: saved ? (commandFor(finding, saved) ?? null) : null,
          }
        : null,
    })),
  };
}

/** The command that shows the finding, if there is one. */
export const commandFor = ({ kind, setup }: Finding, { traceFile, operationsFile }: Saved) =>
  kind.command?.(setup, traceFile, operationsFile);

export const replayCommand = ({ file }: Saved, backend: BackendName) =>
  `kvlab fuzz --replay ${file}${backend === defaultBackend.name ? "" : ` --target ${backend}`}`;

export type FuzzDocument = ReturnType<typeof fuzzDocument>;
