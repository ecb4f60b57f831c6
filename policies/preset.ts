import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, Plugin } from "../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../core/plugins/rules.ts";

/** Options of a scheduler on GPUs with at least this much memory. */
export interface DeviceOptions {
  readonly memoryGiB: number;
  /** Beginnings of the names of GPUs to which the entry does not apply. */
  readonly except?: readonly string[];
  readonly schedulerOptions: Readonly<Record<string, number>>;
}

/** A named composition of plug-ins and rules that stands for a real system; it contains no code. */
export interface Preset extends Plugin {
  /** Source code or description of the system. */
  readonly link: string;
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  /** Name of the scheduler; the clock-free replay serves requests one after the other and does not use it. */
  readonly scheduler: string;
  /** Options of the scheduler that differ from its defaults. */
  readonly schedulerOptions?: Readonly<Record<string, number>>;
  /** Options of the scheduler that the system derives from its GPU, by ascending memory; the last entry that applies is used. */
  readonly deviceOptions?: readonly DeviceOptions[];
  /** Blocks of the pool that are never allocated; they are subtracted from a capacity that follows from a device's memory. */
  readonly unusedBlocks?: number;
  /** The system's default block size, in tokens. */
  readonly blockTokens: number;
  /** Reuse rules that differ from the index's defaults. */
  readonly rules: Readonly<Partial<Record<RuleName, RuleValue>>>;
}
