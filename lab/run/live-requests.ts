import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Served } from "../../core/serving/measured-requests.ts";
import { type Slo, timesOf } from "../../core/serving/metrics.ts";
import { never } from "../../core/serving/outcomes.ts";
import { liveFiles, mostLiveRequests, requestColumns } from "../../viz/server/live-format.ts";

/** Which requests of a live run are measured, and their SLO. */
export interface LiveGoals {
  /** Leading requests that are in no metric. */
  readonly warmup: number;
  readonly slo: Slo | undefined;
}

/** Times of the requests of a live run that have ended: appended to a file, and counted against the SLO. */
export class LiveRequests {
  /** Measured requests that have ended, refused ones included; and those of them that meet the SLO. */
  ended = 0;
  attained = 0;
  readonly #goals: LiveGoals;
  readonly #file: number;
  #writtenCount = 0;
  /** By request, 1 if it has been counted. */
  #counted = new Uint8Array(1024);
  /** All requests before this one have been counted. */
  #firstOpen = 0;

  constructor(folder: string, goals: LiveGoals) {
    this.#goals = goals;
    this.#file = openSync(join(folder, liveFiles.requests), "w");
  }

  /** Counts and writes the requests that have ended since the last call. */
  write({ passedOn, batches }: Served["arrivals"]): void {
    const rows: number[] = [];
    let firstOpen: number | undefined;
    for (const { outcomes, firstId } of [...passedOn, ...batches]) {
      const count = outcomes.refused.length;
      this.#grow(firstId + count);
      for (let row = Math.max(0, this.#firstOpen - firstId); row < count; row++) {
        const id = firstId + row;
        if (outcomes.finishedNs[row] === never) firstOpen ??= id;
        else if (this.#counted[id] === 0) {
          this.#counted[id] = 1;
          if (id < this.#goals.warmup) continue;
          this.#count(timesOf(outcomes, row));
          if (this.#writtenCount < mostLiveRequests) {
            for (const name of requestColumns) rows.push(name === "request" ? id : outcomes[name][row]);
            this.#writtenCount++;
          }
        }
      }
      if (firstOpen === undefined && firstId + count > this.#firstOpen) this.#firstOpen = firstId + count;
    }
    if (firstOpen !== undefined) this.#firstOpen = firstOpen;
    const bytes = new Uint8Array(Float64Array.from(rows).buffer);
    for (let at = 0; at < bytes.byteLength; ) at += writeSync(this.#file, bytes, at);
  }

  close(): void {
    closeSync(this.#file);
  }

  #count(times: ReturnType<typeof timesOf>): void {
    const { slo = {} } = this.#goals;
    const within = (name: "ttftMs" | "tpotMs" | "e2eMs") =>
      (times?.[name] ?? 0) <= (slo[name] ?? Number.POSITIVE_INFINITY);
    this.ended++;
    if (times && within("ttftMs") && within("tpotMs") && within("e2eMs")) this.attained++;
  }

  #grow(count: number): void {
    if (count <= this.#counted.length) return;
    const grown = new Uint8Array(Math.max(count, 2 * this.#counted.length));
    grown.set(this.#counted);
    this.#counted = grown;
  }
}
