import { LateNamespaces } from "../../core/trace/content.ts";
import { standardInputPath } from "../../traces/bytes.ts";

/**
 * Calls `count` for one pass over a trace; a second time, with `namespaces`, if namespaces begin after the first batch, as all
 * content ids are then assigned per namespace. Standard input is readable once, so that its only pass has `namespaces`.
 */
export async function withLateNamespaces<Result>(
  files: readonly string[],
  count: (namespaces: boolean) => Promise<Result>,
): Promise<Result> {
  if (files.includes(standardInputPath)) return await count(true);
  try {
    return await count(false);
  } catch (error) {
    if (!(error instanceof LateNamespaces)) throw error;
    return await count(true);
  }
}
