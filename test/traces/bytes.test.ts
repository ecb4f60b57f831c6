import { expect, test } from "vitest";
import { copyStandardInput, openForRandomAccess } from "../../traces/bytes.ts";
import { failureOf, fileOf, folder } from "./files.ts";

test("a file is read at any position", async () => {
  const path = fileOf("0123456789", "digits");
  await copyStandardInput([path]);
  const file = openForRandomAccess(path);
  const into = new Uint8Array(4);
  expect(file.bytes).toBe(10);
  expect([file.readAt(3, into), Buffer.from(into).toString()]).toEqual([4, "3456"]);
  expect([file.readAt(8, into), file.readAt(10, into)]).toEqual([2, 0]);
  file.close();
  expect(await failureOf(async () => openForRandomAccess(`${folder}/none`))).toBe("none: no such file");
});
