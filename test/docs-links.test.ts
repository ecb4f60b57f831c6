import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../policies/registry.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const documents = [
  "README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** The text without code blocks, in which brackets are not links. */
const proseOf = (path: string) => readFileSync(path, "utf8").replace(/^```[\s\S]*?^```/gm, "");

/** The anchor that GitHub gives a heading: lower case, without punctuation, spaces as hyphens. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");

/** Anchors of headings, numbered where several have the same text, and those that are set explicitly. */
function anchorsIn(path: string): string[] {
  const text = proseOf(path);
  const counts = new Map<string, number>();
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => {
    const anchor = anchorOf(heading);
    const before = counts.get(anchor) ?? 0;
    counts.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
  return [...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id)];
}

/** Relative targets of links and images. */
const targetsIn = (path: string) =>
  [...proseOf(path).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target).filter((target) => !/^\w+:/.test(target));

test.each(documents)("relative links in %s lead to existing files and headings", (document) => {
  const path = join(root, document);
  const anchors = new Map<string, ReadonlySet<string>>();
  const dead = targetsIn(path).filter((target) => {
    const [file, anchor] = target.split("#");
    const linked = file === "" ? path : join(dirname(path), file);
    if (!existsSync(linked)) return true;
    if (anchor === undefined) return false;
    if (!anchors.has(linked)) anchors.set(linked, new Set(anchorsIn(linked)));
    return !anchors.get(linked)!.has(anchor);
  });
  expect(dead, relative(root, path)).toEqual([]);
});

test("the README counts the plug-ins that there are", () => {
  const readme = readFileSync(join(root, "README.md"), "utf8").replace(/\s+/g, " ");
  const bounds = evictionRegistry.all.filter(({ offline, unlimited }) => offline || unlimited).length;
  const indexes = indexRegistry.all.filter(({ storesNothing }) => !storesNothing).length;
  for (const count of [
    `${indexes} indexes (`,
    `${evictionRegistry.all.length - bounds} eviction policies (`,
    `${bounds} bounds (`,
    `${allocatorRegistry.all.length} allocators,`,
    `${schedulerRegistry.all.length} schedulers and ${routerRegistry.all.length} routers.`,
    `${schedulerRegistry.all.length} schedulers, ${routerRegistry.all.length} routers (`,
  ])
    expect(readme).toContain(count);
});
