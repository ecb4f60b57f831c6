import type { ReplayConfig } from "../../core/replica/replay.ts";
import { withFile as namingFile } from "../user-plugins/user-plugin.ts";

/** The error, with the file and the request if a plug-in from a file caused it. */
export const withFile = (
  error: unknown,
  { index, eviction, allocator, scheduler }: Pick<ReplayConfig, "index" | "eviction" | "allocator" | "scheduler">,
): unknown => namingFile(error, [eviction, index, scheduler, allocator]);

/** Longest time between two checks for a signal, in milliseconds. */
export const sliceMs = 40;
