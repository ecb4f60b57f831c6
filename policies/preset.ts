import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, Plugin } from "../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../core/plugins/rules.ts";

/** A named composition that stands for a real system: parts and rules, and nothing of its own. */
export interface Preset extends Plugin {
  /** Where the system's own code or description is. */
  readonly link: string;
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  /** By name; without a clock requests are served one after the other. */
  readonly scheduler: string;
  /** Of its scheduler's options those that are not its defaults. */
  readonly schedulerOptions?: Readonly<Record<string, number>>;
  /** Its usual block size. */
  readonly blockTokens: number;
  /** Rules that differ from the index's defaults. */
  readonly rules: Readonly<Partial<Record<RuleName, RuleValue>>>;
}
