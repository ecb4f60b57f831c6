import { closeSync, openSync, readdirSync, renameSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Checkpoint } from "../../../engine/model/checkpoint.ts";
import { readConfig } from "../../../engine/model/config.ts";
import type { DecoderConfig, WeightSource } from "../../../engine/model/decoder.ts";
import { randomConfig, randomShapeNames, randomWeights } from "../../../engine/model/random.ts";
import { layerTensors, modelTensors } from "../../../engine/model/tensors.ts";
import { checkpointOf, type FloatName, folderOf, rawTensor, rounded, shardFiles } from "../../support/checkpoints.ts";

const tinyNames = randomShapeNames.filter((name) => name.startsWith("tiny"));

/** Tensors that differ from the source's, each number rounded to a format. */
function differences(found: WeightSource, expected: WeightSource, config: DecoderConfig, format: FloatName): string[] {
  const wrong: string[] = [];
  const compare = (name: string, a: Float32Array, b: Float32Array) => {
    const isSame = a.length === b.length && a.every((value, i) => value === rounded(b[i], format).value);
    if (!isSame) wrong.push(name);
  };
  for (const { tensor } of modelTensors(config)) compare(tensor, found.model(tensor), expected.model(tensor));
  compare("head", found.model("head"), expected.model("head"));
  for (let layer = 0; layer < config.layers; layer++)
    for (const { tensor } of layerTensors(config))
      compare(`${layer} ${tensor}`, found.layer(layer, tensor), expected.layer(layer, tensor));
  return wrong;
}

for (const name of tinyNames) {
  test(`${name}: weights in the layout of the transformers library are read in the layout of the engine`, () => {
    const config = randomConfig(name);
    const weights = randomWeights(config, 7);
    const folder = checkpointOf(config, weights);
    const read = readConfig(folder);
    expect({ ...read, name: config.name }).toEqual(config);
    const checkpoint = new Checkpoint(folder, read);
    expect(differences(checkpoint, weights, config, "F32")).toEqual([]);
    checkpoint.close();
  });
}

test("all formats and numbers of shards give the same weights, rounded", () => {
  const config = { ...randomConfig("tiny-bloom"), layers: 1, vocabulary: 40 };
  const weights = randomWeights(config, 3);
  fc.assert(
    fc.property(fc.constantFrom<FloatName>("F32", "F16", "BF16"), fc.integer({ min: 1, max: 5 }), (format, shards) => {
      const folder = checkpointOf(config, weights, { format, shards });
      const checkpoint = new Checkpoint(folder, config);
      expect(differences(checkpoint, weights, config, format)).toEqual([]);
      checkpoint.close();
    }),
    { numRuns: 8 },
  );
});

test("a tensor larger than a chunk is read completely, and transposed", () => {
  const config = { ...randomConfig("tiny"), layers: 1, vocabulary: 9001 };
  const weights = randomWeights(config, 3);
  for (const format of ["F16", "F32"] as const) {
    const checkpoint = new Checkpoint(checkpointOf(config, weights, { format }), config);
    expect(differences(checkpoint, weights, config, format)).toEqual([]);
    checkpoint.close();
  }
});

/** Two heads of two dimensions, hidden 4: every stored number is its own index. */
const small = {
  gpt2: { ...randomConfig("tiny-gpt2"), layers: 1, hidden: 4, heads: 2, kvHeads: 2, headDim: 2, ffn: 4 },
  bloom: { ...randomConfig("tiny-bloom"), layers: 1, hidden: 4, heads: 2, kvHeads: 2, headDim: 2, ffn: 16 },
};
const upTo = (count: number) => Float32Array.from({ length: count }, (_, i) => i);

test("GPT-2's fused projection is split by columns: queries, keys, values", () => {
  const folder = checkpointOf(small.gpt2, randomWeights(small.gpt2, 1), {
    change(tensors) {
      tensors["h.0.attn.c_attn.weight"] = rawTensor([4, 12], upTo(48));
      tensors["h.0.attn.c_attn.bias"] = rawTensor([12], upTo(12));
    },
  });
  const checkpoint = new Checkpoint(folder, small.gpt2);
  expect([...checkpoint.layer(0, "query")]).toEqual([0, 1, 2, 3, 12, 13, 14, 15, 24, 25, 26, 27, 36, 37, 38, 39]);
  expect([...checkpoint.layer(0, "value")].slice(0, 5)).toEqual([8, 9, 10, 11, 20]);
  expect([...checkpoint.layer(0, "key.bias")]).toEqual([4, 5, 6, 7]);
  checkpoint.close();
});

test("BLOOM's fused projection has query, key and value of one head after the other", () => {
  const folder = checkpointOf(small.bloom, randomWeights(small.bloom, 1), {
    change(tensors) {
      tensors["transformer.h.0.self_attention.query_key_value.weight"] = rawTensor([12, 4], upTo(48));
      tensors["transformer.h.0.self_attention.query_key_value.bias"] = rawTensor([12], upTo(12));
    },
  });
  const checkpoint = new Checkpoint(folder, small.bloom);
  // Rows 0 1 are the first head's query, 2 3 its key, 4 5 its value; the second head begins with row 6.
  expect([...checkpoint.layer(0, "query.bias")]).toEqual([0, 1, 6, 7]);
  expect([...checkpoint.layer(0, "key.bias")]).toEqual([2, 3, 8, 9]);
  expect([...checkpoint.layer(0, "value.bias")]).toEqual([4, 5, 10, 11]);
  expect([...checkpoint.layer(0, "key")]).toEqual([8, 12, 32, 36, 9, 13, 33, 37, 10, 14, 34, 38, 11, 15, 35, 39]);
  checkpoint.close();
});

const tiny = { ...randomConfig("tiny"), layers: 1 };
const tinyWeights = randomWeights(tiny, 1);

test("tensor names in files of a bare decoder have no prefix; unused tensors are allowed, in any format", () => {
  const folder = checkpointOf(randomConfig("tiny-qwen3"), randomWeights(randomConfig("tiny-qwen3"), 1), {
    change(tensors) {
      for (const name of Object.keys(tensors)) {
        tensors[name.replace(/^model\./, "")] = tensors[name];
        delete tensors[name];
      }
      tensors["rotary_emb.mask"] = { dtype: "BOOL", shape: [3], bytes: new Uint8Array(3) };
    },
  });
  const checkpoint = new Checkpoint(folder, readConfig(folder));
  expect(checkpoint.layer(1, "keyNorm")).toEqual(randomWeights(randomConfig("tiny-qwen3"), 1).layer(1, "keyNorm"));
  checkpoint.close();
});

test("the fingerprint is the same for the same files and changes with them", () => {
  const folder = checkpointOf(tiny, tinyWeights);
  const print = () => {
    const checkpoint = new Checkpoint(folder, tiny);
    checkpoint.close();
    return checkpoint.fingerprint;
  };
  const before = print();
  expect(print()).toBe(before);
  const other = checkpointOf(tiny, randomWeights(tiny, 2), {
    change: (tensors) => (tensors["more"] = rawTensor([1], [0])),
  });
  renameSync(join(other, "model.safetensors"), join(folder, "model.safetensors"));
  expect(print()).not.toBe(before);
});

/** The error of opening a checkpoint, without the folder's name. */
function failure(folder: string, config: DecoderConfig = tiny): string {
  try {
    new Checkpoint(folder, config).close();
  } catch (error) {
    expect(error).toHaveProperty("name", "InputError");
    expect((error as Error).message).not.toContain("\n");
    return (error as Error).message.replaceAll(`${folder}/`, "").replaceAll(folder, "FOLDER");
  }
  return "nothing: it did not fail";
}

const spoiled = (change: (tensors: Record<string, ReturnType<typeof rawTensor>>) => void, shards = 1) =>
  failure(checkpointOf(tiny, tinyWeights, { change, shards }));

test("a missing tensor is named with its expected shape", () => {
  expect(spoiled((tensors) => delete tensors["model.layers.0.mlp.up_proj.weight"])).toBe(
    "model.safetensors: tensor model.layers.0.mlp.up_proj.weight is missing, expected one of shape [128,64]",
  );
});

test("a tensor that is in no shard is named with its expected shape", () => {
  expect(spoiled((tensors) => delete tensors["lm_head.weight"], 3)).toBe(
    "model.safetensors.index.json: tensor lm_head.weight is missing, expected one of shape [512,64]",
  );
});

test("a tensor of another shape is named with both shapes", () => {
  expect(
    spoiled((tensors) => (tensors["model.layers.0.self_attn.k_proj.weight"] = rawTensor([64, 64], upTo(4096)))),
  ).toBe("model.safetensors: tensor model.layers.0.self_attn.k_proj.weight has shape [64,64], expected [32,64]");
});

test("a tensor that is not stored as floats is refused", () => {
  expect(
    spoiled((tensors) => (tensors["model.norm.weight"] = { dtype: "I8", shape: [64], bytes: new Uint8Array(64) })),
  ).toBe("model.safetensors: tensor model.norm.weight has dtype I8, expected F32, F16, BF16");
  const eight = { dtype: "F8_E4M3", shape: [512, 64], bytes: new Uint8Array(512 * 64) };
  expect(spoiled((tensors) => (tensors["lm_head.weight"] = eight))).toBe(
    "model.safetensors: tensor lm_head.weight has dtype F8_E4M3, expected F32, F16, BF16",
  );
});

test("an unexpected tensor of a layer is refused: a bias, an additional layer", () => {
  const bias = rawTensor([64], upTo(64));
  expect(spoiled((tensors) => (tensors["model.layers.0.self_attn.q_proj.bias"] = bias))).toBe(
    "model.safetensors: unexpected tensor model.layers.0.self_attn.q_proj.bias, expected none: config.json describes a model without it",
  );
  expect(spoiled((tensors) => (tensors["model.layers.1.input_layernorm.weight"] = bias), 2)).toBe(
    "model.safetensors.index.json: unexpected tensor model.layers.1.input_layernorm.weight, expected layers up to 0",
  );
});

test("frequencies and masks of older files, and a head with tied embeddings, are ignored", () => {
  const more = rawTensor([1], [0]);
  const nothing = "nothing: it did not fail";
  expect(spoiled((tensors) => (tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = more))).toBe(nothing);
  const tied = { ...tiny, tiedEmbeddings: true };
  const change = (tensors: Record<string, unknown>) => (tensors["lm_head.weight"] = more);
  expect(failure(checkpointOf(tied, tinyWeights, { change }), tied)).toBe(nothing);
  const mask = (tensors: Record<string, unknown>) => (tensors["h.0.attn.masked_bias"] = more);
  expect(failure(checkpointOf(small.gpt2, randomWeights(small.gpt2, 1), { change: mask }), small.gpt2)).toBe(nothing);
});

test("a missing head without tied embeddings is named, and so is a tensor with another prefix", () => {
  const untied = { ...tiny, tiedEmbeddings: false };
  const folder = checkpointOf({ ...tiny, tiedEmbeddings: true }, tinyWeights);
  expect(failure(folder, untied)).toBe(
    "model.safetensors: tensor lm_head.weight is missing, expected one of shape [512,64]",
  );
  expect(failure(folder, small.gpt2)).toBe(
    `model.safetensors: tensor transformer.wte.weight is missing, expected one of shape [${small.gpt2.vocabulary},4]`,
  );
});

test.each([
  ["F32", [0x7fc0_0000, 0x7f80_0000]],
  ["F16", [0x7e00, 0x7c00]],
  ["BF16", [0x7fc0, 0x7f80]],
] as const)("a weight of %s that is NaN or infinite is refused when it is read", (format, patterns) => {
  patterns.forEach((bits, i) => {
    const folder = checkpointOf(tiny, tinyWeights, {
      format,
      change(tensors) {
        const { bytes } = tensors["model.layers.0.mlp.down_proj.weight"];
        const view = new DataView(bytes.buffer, bytes.byteOffset);
        if (format === "F32") view.setUint32(400, bits, true);
        else view.setUint16(400, bits, true);
      },
    });
    const checkpoint = new Checkpoint(folder, tiny);
    expect(() => checkpoint.layer(0, "down")).toThrow(
      `tensor model.layers.0.mlp.down_proj.weight contains ${i === 0 ? "NaN" : "Infinity"}, expected finite numbers`,
    );
    checkpoint.close();
  });
});

test("a truncated shard is refused with the name of its last tensor", () => {
  const folder = checkpointOf(tiny, tinyWeights, { shards: 3 });
  const shard = join(folder, "model-00002-of-00003.safetensors");
  truncateSync(shard, statSync(shard).size - 2);
  expect(failure(folder)).toMatch(
    /^model-00002-of-00003\.safetensors: tensor \S+ ends at byte \d+, the file has \d+: is it truncated\?$/,
  );
});

test("a folder without weights is refused with the names of the expected files", () => {
  expect(failure(folderOf({}))).toBe("FOLDER: no model.safetensors and no model.safetensors.index.json");
  expect(failure(folderOf({ "pytorch_model.bin": "" }))).toBe(
    "FOLDER: no model.safetensors and no model.safetensors.index.json (pytorch_model.bin is not read; convert it)",
  );
});

test("a shard that is missing, or lacks a tensor of the index, is named", () => {
  const [a, b] = [rawTensor([1], [1]), rawTensor([1], [2])];
  const files = shardFiles({ a, b }, 2);
  const { "model-00002-of-00002.safetensors": second, ...others } = files;
  expect(failure(folderOf(others))).toBe("model-00002-of-00002.safetensors: no such file");
  expect(
    failure(folderOf({ ...files, "model-00002-of-00002.safetensors": shardFiles({ c: a }, 1)["model.safetensors"] })),
  ).toBe("model-00002-of-00002.safetensors: tensor b is missing, but listed in model.safetensors.index.json");
  expect(second).toBeDefined();
});

test("a tensor in two shards is refused", () => {
  const [a, b] = [rawTensor([1], [1]), rawTensor([1], [2])];
  const both = shardFiles({ a, b }, 1)["model.safetensors"];
  expect(failure(folderOf({ ...shardFiles({ a, b }, 2), "model-00002-of-00002.safetensors": both }))).toBe(
    "model-00002-of-00002.safetensors: tensor a is also in model-00001-of-00002.safetensors, expected it once",
  );
});

test("an index that names a file outside the folder, or has no weight map, is refused", () => {
  const index = (content: unknown) => failure(folderOf({ "model.safetensors.index.json": content }));
  expect(index({ weight_map: { a: "../other.safetensors" } })).toBe(
    'model.safetensors.index.json: weight_map.a is "../other.safetensors", expected the name of a file in the same folder',
  );
  expect(index({ weight_map: { a: 3 } })).toBe("model.safetensors.index.json: weight_map.a is 3, expected a string");
  expect(index({})).toBe(
    "model.safetensors.index.json: weight_map is missing, expected an object with each tensor's file",
  );
});

test("a refused checkpoint leaves no file open", () => {
  const folder = checkpointOf(tiny, tinyWeights, { change: (tensors) => delete tensors["lm_head.weight"], shards: 3 });
  const next = () => {
    const descriptor = openSync(join(folder, "config.json"), "r");
    closeSync(descriptor);
    return descriptor;
  };
  const before = next();
  failure(folder);
  writeFileSync(join(folder, readdirSync(folder).filter((name) => name.endsWith(".safetensors"))[1]), "cut");
  expect(failure(folder)).toContain("expected the 8 of the header's length first");
  expect(next()).toBe(before);
});
