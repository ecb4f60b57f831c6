import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { newFolder, start } from "./program.ts";

/** A folder with sweep.yaml. */
export function sweepFolder(text: string): string {
  const folder = newFolder();
  writeFileSync(join(folder, "sweep.yaml"), text);
  return folder;
}

/** Starts the program, which is killed after the test if it has not ended: a sweep may wait for a Redis that has ended. */
export function startSweep(...call: Parameters<typeof start>): ReturnType<typeof start> {
  const child = start(...call);
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** Different configurations over the built-in example: 10 for each step of the size. */
export const manyConfigurations = (count: number) => `
options: {limit: 20}
vary:
  eviction: [lru, fifo, lfu, mru, random]
  rule.free-order: [reverse, forward]
  blocks: {from: 20, to: ${19 + count / 10}, step: 1}
`;

/** The names of results in a sweep's folder with their bytes. */
export function resultsIn(folder: string): Map<string, string> {
  const names = readdirSync(folder).filter((name) => /^[0-9a-f]{32}$/.test(name));
  return new Map(names.sort().map((name) => [name, readFileSync(join(folder, name, "run.json"), "utf8")]));
}

/** Names in a sweep's folder besides its results. */
export const othersIn = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => !/^[0-9a-f]{32}$/.test(name))
    .sort();

/** Keys of the results in the order in which they were added. */
export const addedKeys = (folder: string): string[] =>
  readFileSync(join(folder, "times.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).key);
