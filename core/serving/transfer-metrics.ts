import { type Distribution, distribution } from "./distribution.ts";
import type { Served } from "./measured-requests.ts";

/** Transfers of KV from prefill to decode replicas. */
export interface TransferMetrics {
  readonly count: number;
  readonly tokens: number;
  /** Prompt tokens that were not transferred, because the decode replica had them in its cache. */
  readonly reusedTokens: number;
  readonly bytes: number;
  /** From the allocation of blocks on the decode replica to the start of the transfer; null if there was none. */
  readonly queueMs: Distribution | null;
  /** From the first output token to the arrival of the KV, with the wait for blocks on the decode replica. */
  readonly delayMs: Distribution | null;
}

const msPerNs = 1e-6;

/** Transfers of requests after the first `warmup` ones; undefined without disaggregation. */
export function transferMetrics({ transfers }: Pick<Served, "transfers">, warmup: number): TransferMetrics | undefined {
  if (transfers === undefined) return undefined;
  const { request, tokens, reusedTokens, bytes, queuedNs, startNs, endNs, firstTokenNs } = transfers;
  const rows = Array.from(request.keys()).filter((row) => request[row] >= warmup);
  const sumOf = (column: readonly number[]) => rows.reduce((sum, row) => sum + column[row], 0);
  const inMs = (ns: (row: number) => number) => distribution(Float64Array.from(rows, (row) => ns(row) * msPerNs));
  return {
    count: rows.length,
    tokens: sumOf(tokens),
    reusedTokens: sumOf(reusedTokens),
    bytes: sumOf(bytes),
    queueMs: inMs((row) => startNs[row] - queuedNs[row]),
    delayMs: inMs((row) => endNs[row] - firstTokenNs[row]),
  };
}
