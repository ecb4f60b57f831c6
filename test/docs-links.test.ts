import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

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

const anchorsIn = (path: string) => [...proseOf(path).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading));

/** Relative targets of links and images. */
const targetsIn = (path: string) =>
  [...proseOf(path).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target).filter((target) => !/^\w+:/.test(target));

test.each(documents)("relative links in %s lead to existing files and headings", (document) => {
  const path = join(root, document);
  const dead = targetsIn(path).filter((target) => {
    const [file, anchor] = target.split("#");
    const linked = file === "" ? path : join(dirname(path), file);
    if (!existsSync(linked)) return true;
    return anchor !== undefined && !anchorsIn(linked).includes(anchor);
  });
  expect(dead, relative(root, path)).toEqual([]);
});
