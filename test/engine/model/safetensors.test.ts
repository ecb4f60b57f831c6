import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import { readFloats, SafetensorsFile, SafetensorsFolder } from "../../../engine/model/safetensors.ts";
import { folderOf, rawTensor, safetensorsOf } from "../../support/checkpoints.ts";

const two = { a: rawTensor([2, 3], [1, 2, 3, 4, 5, 6]), b: rawTensor([2], [7, 8], "BF16") };

function failure(file: Uint8Array): string {
  const path = join(folderOf({ "t.safetensors": file }), "t.safetensors");
  try {
    new SafetensorsFile(path).close();
  } catch (error) {
    expect(error).toBeInstanceOf(InputError);
    return (error as Error).message.replace(path, "t");
  }
  return "nothing: it did not fail";
}

const header = (change: (tensors: Record<string, Record<string, unknown>>) => unknown) =>
  failure(
    safetensorsOf(two, (tensors) => {
      change(tensors as Record<string, Record<string, unknown>>);
      return tensors;
    }),
  );

test("any range of a tensor is read, regardless of the other tensors", () => {
  const values = Float32Array.from({ length: 1000 }, (_, i) => i - 500);
  for (const format of ["F32", "F16", "BF16"] as const) {
    // An odd number of bytes before it: reading must not depend on alignment.
    const odd = { dtype: "U8", shape: [3], bytes: new Uint8Array(3) };
    const folder = folderOf({ "model.safetensors": safetensorsOf({ odd, t: rawTensor([10, 100], values, format) }) });
    const opened = new SafetensorsFolder(folder);
    const tensor = opened.tensor("t", [10, 100]);
    fc.assert(
      fc.property(fc.nat(1000), fc.nat(1000), (a, b) => {
        const [from, to] = [Math.min(a, b), Math.max(a, b)];
        const into = new Float32Array(to - from);
        readFloats(tensor, from, into);
        const expected = values.slice(from, to);
        // bfloat16 has 8 significant bits: integers up to 512 are at most 1 off.
        const off = into.map((value, i) => Math.abs(value - expected[i]));
        expect(Math.max(0, ...off)).toBeLessThanOrEqual(format === "BF16" ? 1 : 0);
      }),
    );
    opened.close();
  }
});

test("a file shorter than the header's length field is refused", () => {
  expect(failure(new Uint8Array(0))).toBe("t: has 0 bytes, expected the 8 of the header's length first");
  expect(failure(new Uint8Array(7))).toBe("t: has 7 bytes, expected the 8 of the header's length first");
});

test("a header longer than the file, or than any header, is refused", () => {
  const file = safetensorsOf(two);
  new DataView(file.buffer).setBigUint64(0, 1000n, true);
  expect(failure(file)).toBe(`t: header ends at byte 1008, the file has ${file.length}`);
  new DataView(file.buffer).setBigUint64(0, 2n ** 63n, true);
  expect(failure(file)).toBe("t: header length is 9223372036854775808, expected at most 100000000");
});

test("a header that is not a JSON object is refused", () => {
  expect(failure(safetensorsOf(two, () => [1, 2]))).toBe("t: header is no JSON object");
  const cut = safetensorsOf(two);
  cut[8] = "[".charCodeAt(0);
  expect(failure(cut)).toBe("t: header is no JSON object");
  cut[8] = 0xff;
  expect(failure(cut)).toBe("t: header is no JSON object");
});

test("an unknown dtype, an invalid shape and invalid offsets are named", () => {
  expect(header(({ a }) => (a["dtype"] = "F7"))).toMatch(/^t: tensor a has dtype "F7", expected one of F64, F32, F16/);
  expect(header(({ a }) => delete a["dtype"])).toMatch(/^t: tensor a has dtype undefined, expected/);
  expect(header(({ a }) => (a["shape"] = [2, -3]))).toBe("t: tensor a has shape [2,-3], expected a list of lengths");
  expect(header(({ a }) => (a["shape"] = 6))).toBe("t: tensor a has shape 6, expected a list of lengths");
  const offsets = "expected its first byte and the one after its last";
  expect(header(({ a }) => (a["data_offsets"] = [24, 0]))).toBe(`t: tensor a has data_offsets [24,0], ${offsets}`);
  expect(header(({ a }) => (a["data_offsets"] = [0]))).toBe(`t: tensor a has data_offsets [0], ${offsets}`);
  expect(header((tensors) => (tensors["a"] = null as never))).toMatch(/^t: tensor a has dtype undefined/);
});

test("a tensor whose bytes do not fit its shape is named with both numbers", () => {
  expect(header(({ a }) => (a["shape"] = [3, 3]))).toBe("t: tensor a has 24 bytes, expected 36 for F32 of shape [3,3]");
  expect(header(({ b }) => (b["dtype"] = "F32"))).toBe("t: tensor b has 4 bytes, expected 8 for F32 of shape [2]");
});

test("tensors that overlap are refused", () => {
  expect(header(({ b }) => (b["data_offsets"] = [22, 26]))).toMatch(
    /^t: tensor b begins at byte \d+, inside tensor a$/,
  );
});

test("a truncated file is refused when it is opened ...", () => {
  const file = safetensorsOf(two);
  expect(failure(file.slice(0, -1))).toBe(
    `t: tensor b ends at byte ${file.length}, the file has ${file.length - 1}: is it truncated?`,
  );
});

test("... and also when it is truncated afterwards", () => {
  const folder = folderOf({ "model.safetensors": safetensorsOf(two) });
  const opened = new SafetensorsFolder(folder);
  truncateSync(join(folder, "model.safetensors"), 150);
  const tensor = opened.tensor("b", [2]);
  expect(() => readFloats(tensor, 0, new Float32Array(2))).toThrow(/ends at byte \d+, expected \d more$/);
  opened.close();
});

test("a folder in a file's place is refused", () => {
  const folder = folderOf({});
  expect(() => new SafetensorsFile(folder)).toThrow(InputError);
});

test("a truncated or overwritten file is either read or refused in one line", () => {
  const whole = safetensorsOf(two);
  const path = join(folderOf({}), "t.safetensors");
  const spoiled = fc.oneof(
    fc.nat(whole.length).map((length) => whole.slice(0, length)),
    fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
      const file = whole.slice();
      file[at] = byte;
      return file;
    }),
    fc.uint8Array({ maxLength: 64 }),
  );
  fc.assert(
    fc.property(spoiled, (file) => {
      writeFileSync(path, file);
      try {
        const opened = new SafetensorsFile(path);
        for (const { offset, bytes } of opened.tensors.values()) opened.read(offset, new Uint8Array(bytes));
        opened.close();
      } catch (error) {
        expect(error).toBeInstanceOf(InputError);
        expect((error as Error).message).not.toMatch(/\n/);
      }
    }),
    { numRuns: 500 },
  );
});
