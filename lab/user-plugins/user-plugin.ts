import { InvariantError, PolicyError } from "../../core/errors.ts";
import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { calledAs } from "../package.ts";
import { Guard } from "./guard.ts";
import { kinds, type PluginKind, type Plugins } from "./kinds.ts";
import { loadPlugin } from "./plugin-file.ts";
import { messageOf } from "./user-code.ts";

/** What every plug-in from a file has beside its contract. */
export interface FromFile {
  /** As the user named it. */
  readonly file: string;
  readonly kind: PluginKind;
  readonly guard: Guard;
}

/** Whether a plug-in is one from a file. */
export const isFromFile = <P extends object>(plugin: P): plugin is P & FromFile => "guard" in plugin;

/**
 * Loads a plug-in of one kind from a file, in TypeScript or JavaScript, in any folder. Every call of it is guarded, so that
 * its errors are distinguished from kvlab's own.
 *
 * @throws InputError if the file does not exist, cannot be read as a program, or exports no plug-in of this kind
 */
export async function loadUserPlugin<K extends PluginKind>(kind: K, file: string): Promise<Plugins[K] & FromFile> {
  const plugin = await loadPlugin(file, kind);
  const guard = new Guard(file);
  return { ...kinds[kind].guarded(plugin, guard), file, kind, guard };
}

/** Whether a cache with correct plug-ins cannot fail in this way. */
const isFailure = (error: unknown): error is Error =>
  error instanceof InvariantError || error instanceof TypeError || error instanceof RangeError;

/**
 * The same error; an error that a plug-in from a file caused names the file and the request. Where several are in use, the
 * first one in `plugins` is named.
 */
export function withFile(error: unknown, plugins: readonly object[]): unknown {
  const own = plugins.filter(isFromFile);
  if (own.length === 0 || !(error instanceof PolicyError || isFailure(error))) return error;
  if (own.some(({ file }) => error.message.startsWith(`${file}: `))) return error;
  // The cache names an eviction policy's errors in full; of all other plug-ins `check` reports the cause.
  const [suspect] = error instanceof PolicyError ? own : own.filter(({ kind }) => kind !== "eviction");
  if (suspect === undefined) return error;
  const { file, kind, guard } = suspect;
  const where = guard.request === undefined ? "" : `at request ${guard.request}: `;
  const hint = kind === "eviction" ? "" : `; ${calledAs()} check ${file} says more`;
  return new PolicyError(`${file}: ${where}${messageOf(error)}${hint}`);
}

/** The scheduler, which also sets the request that errors of a guarded index or allocator name. */
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
