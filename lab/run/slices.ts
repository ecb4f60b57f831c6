import { PolicyError } from "../../core/errors.ts";
import type { ReplayConfig } from "../../core/replica/replay.ts";
import { isFailure, isUserIndex } from "../user-plugins/user-index.ts";
import { isUserPolicy } from "../user-plugins/user-policy.ts";

/** The same error, but a mistake of a user's policy or index says its file and request. */
export function withFile(error: unknown, { index, eviction }: Pick<ReplayConfig, "index" | "eviction">): unknown {
  if (!(error instanceof PolicyError)) return isUserIndex(index) && isFailure(error) ? index.blamedFor(error) : error;
  const files = [index, eviction].flatMap((part) => ("file" in part ? `${part.file}: ` : []));
  if (files.some((file) => error.message.startsWith(file))) return error;
  if (!isUserPolicy(eviction)) return isUserIndex(index) ? index.blamedFor(error) : error;
  const request = eviction.currentRequest();
  const when = request === undefined ? "" : `at request ${request}: `;
  return new PolicyError(`${eviction.file}: ${when}${error.message}`);
}

/** How long signals may wait. */
export const sliceMs = 40;
