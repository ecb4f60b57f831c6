import { InputError } from "../../core/errors.ts";
import type { Plugin } from "../../core/plugins/index.ts";
import type { Registry } from "../../policies/registry.ts";

/** Names of known algorithms that this version does not implement, by option. */
const unsupported: Readonly<Record<string, readonly string[]>> = {
  eviction: ["lru-k", "lfu-da"],
  allocator: ["radix", "page"],
};

/** A built-in plug-in by its name. @throws InputError that lists the names, or reports that a known algorithm is not supported */
export function builtIn<P extends Plugin>(registry: Registry<P>, option: string, name: string): P {
  const names = registry.all.map((plugin) => plugin.name);
  if (!names.includes(name) && unsupported[option]?.includes(name))
    throw new InputError(`--${option} ${name}: not part of this version; expected one of ${names.join(", ")}`);
  return registry.get(name);
}
