import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, Plugin } from "../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../core/plugins/rules.ts";

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
  /** The system's default block size, in tokens. */
  readonly blockTokens: number;
  /** Reuse rules that differ from the index's defaults. */
  readonly rules: Readonly<Partial<Record<RuleName, RuleValue>>>;
}
