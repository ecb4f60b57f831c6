import { InputError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type {
  AllocatorPlugin,
  EvictionPlugin,
  IndexPlugin,
  Plugin,
  RouterPlugin,
  SchedulerPlugin,
} from "../core/plugins/index.ts";
import * as allocators from "./allocator/index.ts";
import * as evictions from "./eviction/index.ts";
import * as indexes from "./index/index.ts";
import type { Preset } from "./preset.ts";
import * as presets from "./presets/index.ts";
import * as routers from "./router/index.ts";
import * as schedulers from "./scheduler/index.ts";

/** The plug-ins of one kind, by name. */
export class Registry<P extends Plugin> {
  readonly kind: string;
  readonly all: readonly P[];

  constructor(kind: string, plugins: Record<string, P>) {
    this.kind = kind;
    this.all = Object.values(plugins).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** @throws InputError that lists the versions of a known system, suggests the nearest name, or lists all names. */
  get(name: string): P {
    const found = this.all.find((plugin) => plugin.name === name);
    if (found) return found;
    const names = this.all.map((plugin) => plugin.name);
    const [system, version] = name.split("@", 2);
    const versions = names.filter((other) => other === system || other.startsWith(`${system}@`));
    if (version !== undefined && versions.length > 0)
      throw new InputError(`${this.kind} ${system} has no version "${version}", expected ${versions.join(" or ")}`);
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
export const routerRegistry = new Registry<RouterPlugin>("router", routers);
export const presetRegistry = new Registry<Preset>("preset", presets);
