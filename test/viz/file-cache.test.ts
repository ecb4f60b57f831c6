import { expect, test } from "vitest";
import { FileCache } from "../../viz/server/file-cache.ts";

const file = (name: string, version = "1") => ({ path: `/${name}`, size: 1, mtimeMs: 1, version });

/** Records the reads, in order; contents are texts, whose length is their size. */
function cacheOf(most: { files: number; bytes: number }) {
  const read: string[] = [];
  let reading = 0;
  const cache = new FileCache(
    async ({ path, version }) => {
      expect(++reading).toBe(1);
      read.push(`${path} ${version}`);
      await new Promise((resolve) => setTimeout(resolve));
      reading--;
      if (path === "/bad") throw new Error("it is damaged");
      return `${path} as of ${version}`;
    },
    (text) => text.length,
    most,
  );
  return { cache, read };
}

test("concurrent reads of a file are one read, and files are read one at a time", async () => {
  const { cache, read } = cacheOf({ files: 4, bytes: 1000 });
  const reads = ["a", "b", "a", "a", "b"].map((name) => cache.read(file(name)));
  expect(await Promise.all(reads)).toEqual(["a", "b", "a", "a", "b"].map((name) => `/${name} as of 1`));
  expect(read).toEqual(["/a 1", "/b 1"]);
});

test("a changed file is read again", async () => {
  const { cache, read } = cacheOf({ files: 4, bytes: 1000 });
  for (const version of ["1", "1", "2", "2"]) expect(await cache.read(file("a", version))).toBe(`/a as of ${version}`);
  expect(read).toEqual(["/a 1", "/a 2"]);
});

test.each([
  ["files", { files: 2, bytes: 1000 }],
  ["bytes", { files: 100, bytes: 20 }],
])("the least recently used file is evicted if there are too many %s", async (_, most) => {
  const { cache, read } = cacheOf(most);
  for (const name of ["a", "b", "a", "c", "a", "b"]) await cache.read(file(name));
  expect(read).toEqual(["/a 1", "/b 1", "/c 1", "/b 1"]);
});

test("a file that cannot be read is read again at the next request and does not delay others", async () => {
  const { cache, read } = cacheOf({ files: 4, bytes: 1000 });
  for (let i = 0; i < 2; i++) await expect(cache.read(file("bad"))).rejects.toThrow("it is damaged");
  expect(await cache.read(file("a"))).toBe("/a as of 1");
  expect(read).toEqual(["/bad 1", "/bad 1", "/a 1"]);
});
