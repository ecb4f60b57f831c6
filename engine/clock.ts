import { setTimeout as sleep } from "node:timers/promises";
import type { Nanos } from "../core/trace/trace.ts";

/** Time that passes while an engine works: the only clock of the project. */
export interface Clock {
  /** Whole nanoseconds since it was made, never going back. */
  now(): Nanos;
  /** Until a time has come, or the signal says to wait no longer; at once if either is so. */
  waitUntil(timeNs: Nanos, signal?: AbortSignal): Promise<void>;
}

const sinceNs = (startMs: number): Nanos => Math.round((performance.now() - startMs) * 1e6);

/** Longer waits would make a timer fire at once. */
const longestWaitMs = 2 ** 31 - 1;

/** The time on the wall. */
export class WallClock implements Clock {
  readonly #startMs = performance.now();

  now(): Nanos {
    return sinceNs(this.#startMs);
  }

  async waitUntil(timeNs: Nanos, signal?: AbortSignal): Promise<void> {
    for (let left = timeNs - this.now(); left > 0 && !signal?.aborted; left = timeNs - this.now()) {
      const ms = Math.min(longestWaitMs, Math.ceil(left / 1e6));
      // It rejects only where the signal came first.
      await sleep(ms, undefined, signal && { signal }).catch(() => {});
    }
  }
}

/** The time on the wall without its pauses: waiting takes none, and time is that much later then. */
export class BusyClock implements Clock {
  readonly #startMs = performance.now();
  #skippedNs = 0;

  now(): Nanos {
    return sinceNs(this.#startMs) + this.#skippedNs;
  }

  async waitUntil(timeNs: Nanos): Promise<void> {
    this.#skippedNs += Math.max(0, timeNs - this.now());
  }

  /** Time does not pass during this. */
  async standStill(during: () => Promise<void>): Promise<void> {
    const sinceNs = this.now();
    try {
      await during();
    } finally {
      this.#skippedNs -= this.now() - sinceNs;
    }
  }
}
