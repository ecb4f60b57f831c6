import { setTimeout as sleep } from "node:timers/promises";
import type { Nanos } from "../core/trace/trace.ts";

/** Real time: the only clock of the project. */
export interface Clock {
  /** Whole nanoseconds since the clock was created; never decreases. */
  now(): Nanos;
  /** Resolves at `timeNs` or when the signal aborts; at once if either has already happened. */
  waitUntil(timeNs: Nanos, signal?: AbortSignal): Promise<void>;
}

const sinceNs = (startMs: number): Nanos => Math.round((performance.now() - startMs) * 1e6);

/** Starts a stopwatch. @returns the milliseconds since then, at each call */
export function stopwatch(): () => number {
  const startMs = performance.now();
  return () => performance.now() - startMs;
}

/** Date and time in UTC: "2026-11-23T04:10:00.000Z". */
export const now = (): string => new Date().toISOString();

/** Node's timers fire at once for longer delays. */
const longestWaitMs = 2 ** 31 - 1;

/** Wall-clock time. */
export class WallClock implements Clock {
  readonly #startMs = performance.now();

  now(): Nanos {
    return sinceNs(this.#startMs);
  }

  async waitUntil(timeNs: Nanos, signal?: AbortSignal): Promise<void> {
    for (let left = timeNs - this.now(); left > 0 && !signal?.aborted; left = timeNs - this.now()) {
      const ms = Math.min(longestWaitMs, Math.ceil(left / 1e6));
      // Rejects only if the signal aborts first.
      await sleep(ms, undefined, signal && { signal }).catch(() => {});
    }
  }
}

/** Wall-clock time with idle periods skipped: waiting returns at once and advances the clock by the time not waited. */
export class BusyClock implements Clock {
  readonly #startMs = performance.now();
  #skippedNs = 0;

  now(): Nanos {
    return sinceNs(this.#startMs) + this.#skippedNs;
  }

  async waitUntil(timeNs: Nanos): Promise<void> {
    this.#skippedNs += Math.max(0, timeNs - this.now());
  }

  /** Runs `during` without advancing the clock. */
  async excluded(during: () => Promise<void>): Promise<void> {
    const sinceNs = this.now();
    try {
      await during();
    } finally {
      this.#skippedNs -= this.now() - sinceNs;
    }
  }
}
