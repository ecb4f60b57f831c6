import type { ServedReplica } from "./measured-requests.ts";

/** Draft tokens of speculative decoding. */
export interface DraftMetrics {
  /** Decodes of a sequence that verified drafts. */
  readonly decodes: number;
  readonly draftTokens: number;
  /** Accepted draft tokens that are part of an output. */
  readonly acceptedTokens: number;
  /** Output tokens per such decode: accepted ones and the target's own. */
  readonly tokensPerDecode: number;
}

/** Draft tokens of all replicas since metrics began; undefined without speculative decoding. */
export function draftMetrics(replicas: readonly ServedReplica[]): DraftMetrics | undefined {
  if (!replicas.some(({ replica }) => replica.speculates)) return undefined;
  const sumOf = (name: keyof ServedReplica["replica"]["drafts"]) =>
    replicas.reduce((sum, { replica }) => sum + replica.drafts[name], 0);
  const [decodes, draftTokens, acceptedTokens] = [sumOf("decodes"), sumOf("tokens"), sumOf("accepted")];
  const tokensPerDecode = decodes === 0 ? 0 : (decodes + acceptedTokens) / decodes;
  return { decodes, draftTokens, acceptedTokens, tokensPerDecode };
}
