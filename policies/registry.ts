import { InputError } from "../core/errors.ts";
import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, Plugin, SchedulerPlugin } from "../core/plugins.ts";
import * as allocators from "./allocator/index.ts";
import * as evictions from "./eviction/index.ts";
import * as indexes from "./index/index.ts";
import * as schedulers from "./scheduler/index.ts";

/** The plug-ins of one kind, by name. */
export class Registry<P extends Plugin> {
  readonly kind: string;
  readonly all: readonly P[];

  constructor(kind: string, plugins: Record<string, P>) {
    this.kind = kind;
    this.all = Object.values(plugins).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** @throws InputError with the nearest name, or all of them. */
  get(name: string): P {
    const found = this.all.find((plugin) => plugin.name === name);
    if (found) return found;
    const names = this.all.map((plugin) => plugin.name);
    const near = nearest(name, names);
    throw new InputError(
      near
        ? `unknown ${this.kind} "${name}": did you mean "${near}"?`
        : `unknown ${this.kind} "${name}", expected one of ${names.join(", ")}`,
    );
  }
}

export const indexRegistry = new Registry<IndexPlugin>("index", indexes);
export const evictionRegistry = new Registry<EvictionPlugin>("eviction policy", evictions);
export const allocatorRegistry = new Registry<AllocatorPlugin>("allocator", allocators);
export const schedulerRegistry = new Registry<SchedulerPlugin>("scheduler", schedulers);

/** The name that differs least, if it differs by little: at most a third of its letters. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of names) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < least && distance <= Math.max(1, candidate.length / 3)) [best, least] = [candidate, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}
