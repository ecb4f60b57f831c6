/** Size of a cache: in blocks, as a share of the trace's distinct blocks, or without limit. */
export type Capacity = { readonly blocks: number } | { readonly share: number } | "unlimited";

/** The size of a cache if neither an option nor a GPU's memory determines it. */
export const defaultCapacity: Capacity = { share: 0.1 };

/** Blocks that a capacity stands for; undefined without limit. */
export function blocksOf(capacity: Capacity, distinctBlocks: number): number | undefined {
  if (capacity === "unlimited") return undefined;
  if ("blocks" in capacity) return capacity.blocks;
  return Math.max(1, Math.round(capacity.share * distinctBlocks));
}
