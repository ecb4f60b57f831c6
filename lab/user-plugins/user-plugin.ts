import { InputError, InvariantError, PolicyError } from "../../core/errors.ts";
import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { isOutOfMemory } from "../out-of-memory.ts";
import { calledAs } from "../package.ts";
import { Guard } from "./guard.ts";
import { kinds, type PluginKind, type Plugins } from "./kinds.ts";
import { badPluginName, loadPlugin } from "./plugin-file.ts";
import { messageOf } from "./user-code.ts";

/** The fields of a user's plug-in in addition to its contract. */
export interface UserPlugin {
  /** The user's path of the file; undefined for a plug-in that was passed as a value. */
  readonly file: string | undefined;
  readonly kind: PluginKind;
  readonly guard: Guard;
}

/** True for a user's plug-in, from a file or a value, whose calls are guarded. */
export const isUserPlugin = <P extends object>(plugin: P): plugin is P & UserPlugin => "guard" in plugin;

/** True for a plug-in from a file. */
export const isFromFile = <P extends object>(plugin: P): plugin is P & UserPlugin & { readonly file: string } =>
  isUserPlugin(plugin) && plugin.file !== undefined;

/**
 * Loads a plug-in of one kind from a file, in TypeScript or JavaScript, in any folder. All its calls are guarded, so that
 * its errors are distinguished from kvlab's own.
 *
 * @throws InputError if the file does not exist, cannot be read as a program, or exports no plug-in of this kind
 */
export async function loadUserPlugin<K extends PluginKind>(kind: K, file: string): Promise<Plugins[K] & UserPlugin> {
  const plugin = await loadPlugin(file, kind);
  const guard = new Guard(file);
  return { ...kinds[kind].guarded(plugin, guard), file, kind, guard };
}

/**
 * A plug-in that a program passes as a value, guarded like one from a file: its errors begin with its name. Built-in and guarded
 * plug-ins are returned unchanged.
 *
 * @throws InputError if it does not have the shape of its kind, or has an invalid name
 */
export function guardedValue<K extends PluginKind>(kind: K, plugin: Plugins[K]): Plugins[K] {
  const { hasShape, builtIn, guarded, label, shape } = kinds[kind];
  if (typeof plugin !== "object" || plugin === null || !hasShape(plugin))
    throw new InputError(`a plug-in that was passed is not ${label}, expected ${shape}`);
  if (isUserPlugin(plugin) || (builtIn() as readonly object[]).includes(plugin)) return plugin;
  const problem = badPluginName(plugin.name, kind);
  if (problem !== undefined) throw new InputError(`${label}'s name is ${JSON.stringify(plugin.name)}, ${problem}`);
  const guard = new Guard(plugin.name);
  return { ...guarded(plugin, guard), name: plugin.name, file: undefined, kind, guard };
}

/** True for errors that cannot occur in a cache with correct plug-ins. */
const isFailure = (error: unknown): error is Error =>
  error instanceof InvariantError ||
  error instanceof TypeError ||
  (error instanceof RangeError && !isOutOfMemory(error));

/**
 * The error itself; if a user's plug-in caused it, an error that names its file, or the plug-in, and the request. Of several
 * user plug-ins, the first one in `plugins` is named.
 */
export function withFile(error: unknown, plugins: readonly object[]): unknown {
  const userPlugins = plugins.filter(isUserPlugin);
  if (userPlugins.length === 0 || !(error instanceof PolicyError || isFailure(error))) return error;
  if (userPlugins.some(({ guard }) => error.message.startsWith(`${guard.file}: `))) return error;
  // The cache names an eviction policy's errors in full; of all other plug-ins `check` reports the cause.
  const [suspect] = error instanceof PolicyError ? userPlugins : userPlugins.filter(({ kind }) => kind !== "eviction");
  if (suspect === undefined) return error;
  const { file, kind, guard } = suspect;
  const where = guard.request === undefined ? "" : `at request ${guard.request}: `;
  const check = file === undefined ? "checkPlugin" : `${calledAs()} check ${file}`;
  const hint = kind === "eviction" ? "" : `; ${check} shows the details`;
  return new PolicyError(`${guard.file}: ${where}${messageOf(error)}${hint}`);
}

/** The scheduler, which also sets the request for error messages of a guarded index or allocator. */
export function notifying(scheduler: SchedulerPlugin, guard: Guard): SchedulerPlugin {
  return {
    ...scheduler,
    create(given) {
      const made = scheduler.create(given);
      const { repeated, finished } = made;
      return {
        plan: (context) => made.plan(context),
        ...(repeated && { repeated: (steps) => repeated.call(made, steps) }),
        ...(finished && { finished: (sequence, now) => finished.call(made, sequence, now) }),
        arrived(sequence, now) {
          guard.request = sequence.request.id;
          made.arrived?.(sequence, now);
        },
      };
    },
  };
}
