import type { RequestHistory } from "../../api.ts";

/** A part of the time from the arrival of a request to its end. */
export interface Phase {
  readonly name: "queueing" | "prefill" | "decode";
  readonly fromNs: number;
  readonly toNs: number;
}

/** The phases of a request that have ended; none without a clock, or if it was refused. */
export function phasesOf(columns: RequestHistory["columns"]): Phase[] {
  const { arrivalNs, admittedNs, firstTokenNs, finishedNs, refused } = columns;
  if (refused === 1) return [];
  const times = [arrivalNs, admittedNs, firstTokenNs, finishedNs];
  const names = ["queueing", "prefill", "decode"] as const;
  return names.flatMap((name, i) => {
    const [fromNs, toNs] = [times[i], times[i + 1]];
    return typeof fromNs === "number" && typeof toNs === "number" ? [{ name, fromNs, toNs }] : [];
  });
}
