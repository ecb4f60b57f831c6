import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import proto from "onnx-proto";
import { Reader } from "protobufjs/minimal.js";
import { expect, test } from "vitest";
import type { DecoderConfig } from "../../../engine/model/decoder.ts";
import { randomWeights } from "../../../engine/model/random.ts";
import { modelFiles } from "../../../engine/onnx/model-files.ts";
import { architectures, folder, oddConfig } from "../cpu/decoders.ts";

/**
 * onnx.proto of ONNX 1.10, IR version 8. Later versions have only added fields, so that a model with only these fields is also
 * valid in IR version 10.
 */
const { ModelProto, TensorProto, AttributeProto } = proto.onnx;
type Model = ReturnType<typeof ModelProto.decode>;
type Graph = NonNullable<Model["graph"]>;

const bytesOfType: Partial<Record<number, number>> = {
  [TensorProto.DataType.FLOAT]: 4,
  [TensorProto.DataType.UINT8]: 1,
  [TensorProto.DataType.INT32]: 4,
  [TensorProto.DataType.INT64]: 8,
};

/** Operators by domain. The standard ones are in ONNX's list for this version. */
const operators: Record<string, string> = {
  "": `Add And Attention Cast Concat Gather Gelu Gemm Greater LayerNormalization LessOrEqual MatMul Mul RMSNormalization
    Range Reshape Shape Sigmoid Squeeze Sub TensorScatter Unsqueeze Where`,
  "com.microsoft": "MatMulNBits RotaryEmbedding",
};

/** Violations of onnx.proto, of the rules in its comments, and of the size of the weights' file. */
function problems(bytes: Uint8Array, dataBytes: number): string[] {
  const found: string[] = [];
  const reader = Reader.create(bytes);
  const skip = reader.skipType.bind(reader);
  // Fields that the schema does not have are skipped.
  reader.skipType = (kind) => {
    found.push("unknown field");
    return skip(kind);
  };
  const model = ModelProto.decode(reader);
  const { graph } = model;
  const claim = (isTrue: unknown, problem: string) => isTrue || found.push(problem);
  claim(Number(model.irVersion) === 10, `IR version ${model.irVersion}`);
  claim(model.producerName, "no producer");
  claim(graph?.name, "no graph");
  const opsets = new Map(model.opsetImport.map(({ domain, version }) => [domain ?? "", Number(version)]));
  claim(opsets.get("") === 24 && opsets.get("com.microsoft") === 1 && opsets.size === 2, `opsets ${[...opsets]}`);
  found.push(...tensorProblems(model, dataBytes), ...valueProblems(model), ...nodeProblems(model));
  return found;
}

function tensorProblems({ graph }: Model, dataBytes: number): string[] {
  const found: string[] = [];
  let end = 0;
  for (const { name, dims, dataType, rawData, externalData, dataLocation } of graph?.initializer ?? []) {
    const expected = (dims ?? []).reduce<number>((n, dim) => n * Number(dim), bytesOfType[dataType ?? 0] ?? Number.NaN);
    if (dataLocation !== TensorProto.DataLocation.EXTERNAL) {
      if (rawData?.length !== expected) found.push(`${name} has ${rawData?.length} bytes, expected ${expected}`);
      continue;
    }
    const { location, offset, length } = Object.fromEntries((externalData ?? []).map(({ key, value }) => [key, value]));
    if (location !== "weights.bin" || (rawData?.length ?? 0) > 0) found.push(`${name} is in ${location}`);
    if (Number(length) !== expected) found.push(`${name} has ${length} bytes, expected ${expected}`);
    if (!(Number(offset) >= end)) found.push(`${name} begins at ${offset}, inside the one before`);
    end = Number(offset) + Number(length);
    if (!(end <= dataBytes)) found.push(`${name} ends at ${end}, the file has ${dataBytes}`);
  }
  return found;
}

function valueProblems({ graph }: Model): string[] {
  const found: string[] = [];
  for (const { name, type } of [...graph!.input!, ...graph!.output!, ...graph!.valueInfo!]) {
    const { elemType, shape } = type?.tensorType ?? {};
    const isShaped = shape?.dim?.every(({ dimValue, dimParam }) => Number(dimValue) > 0 !== Boolean(dimParam));
    if (!name || !elemType || !isShaped) found.push(`value ${name} has no type`);
  }
  return found;
}

/** Each value is computed once, before it is used. */
function nodeProblems({ graph }: Model): string[] {
  const found: string[] = [];
  const names = new Set<string>();
  const made = new Set<string>();
  const make = (value: string) => (made.has(value) ? found.push(`${value} is made twice`) : made.add(value));
  for (const { name } of [...graph!.input!, ...graph!.initializer!]) make(name!);
  for (const { name, opType, domain, input, output, attribute } of graph!.node!) {
    if (!operators[domain ?? ""]?.split(/\s+/).includes(opType!)) found.push(`${opType} is not in domain "${domain}"`);
    if (!name || names.has(name)) found.push(`node ${name} has no name of its own`);
    names.add(name!);
    for (const value of input!) if (!made.has(value)) found.push(`${name} uses ${value}, which is undefined`);
    for (const value of output!) make(value);
    const kinds = { FLOAT: "f", INT: "i", STRING: "s", INTS: "ints" } as Record<string, string>;
    for (const one of attribute!) {
      const values = Object.entries(one).filter(([key]) => key !== "name" && key !== "type");
      const own = values.filter(([, value]) => !Array.isArray(value) || value.length > 0).map(([key]) => key);
      const expected = kinds[AttributeProto.AttributeType[one.type!]];
      if (!one.name || own.join() !== expected) found.push(`${name} has ${one.name} as ${own}, expected ${expected}`);
    }
  }
  for (const { name } of graph!.output!) if (!made.has(name!)) found.push(`nothing makes ${name}`);
  for (const { name } of graph!.valueInfo!) if (!made.has(name!)) found.push(`nothing makes ${name}`);
  return found;
}

async function written(config: DecoderConfig, bits: 32 | 8 | 4) {
  const path = await modelFiles(config, randomWeights(config, 1), { folder, bits });
  return { bytes: readFileSync(path), dataBytes: statSync(join(dirname(path), "weights.bin")).size };
}

const cases = [
  ...architectures.map((name) => [name, oddConfig(name)] as const),
  [
    "llama, tied, with biases",
    oddConfig("llama", { tiedEmbeddings: true, biases: { qkv: true, output: true, ffn: false } }),
  ] as const,
  ["qwen3, a window", oddConfig("qwen3", { window: 5 })] as const,
  ["gpt2, exact gelu", oddConfig("gpt2", { feedForward: "gelu" })] as const,
];

test.each(cases)("%s: the model is one of onnx.proto, with weights of 32, 8 and 4 bits", async (_name, config) => {
  for (const bits of [32, 8, 4] as const) {
    const { bytes, dataBytes } = await written(config, bits);
    expect(problems(bytes, dataBytes)).toEqual([]);
  }
});

test("violations in a model are found", async () => {
  const { bytes, dataBytes } = await written(oddConfig("llama"), 8);
  const changed = (change: (graph: Graph) => void) => {
    const model = ModelProto.decode(bytes);
    change(model.graph!);
    return problems(ModelProto.encode(model).finish(), dataBytes);
  };
  // Field 30, a varint, at the end of the model.
  expect(problems(Uint8Array.of(...bytes, 0xf0, 0x01, 5), dataBytes)).toEqual(["unknown field"]);
  expect(problems(bytes, dataBytes - 1)).toEqual([
    `model.head.values ends at ${dataBytes}, the file has ${dataBytes - 1}`,
  ]);
  const values = (graph: Graph) => graph.initializer!.find(({ name }) => name === "layer.1.down.values")!;
  expect(changed((graph) => values(graph).dims!.push(2))).toEqual([
    "layer.1.down.values has 2304 bytes, expected 4608",
  ]);
  expect(changed((graph) => (values(graph).externalData![1].value = "0"))).toEqual([
    "layer.1.down.values begins at 0, inside the one before",
  ]);
  expect(changed((graph) => graph.node!.reverse())).toContain("Unsqueeze v2 uses v1, which is undefined");
  expect(changed((graph) => (graph.node![1].output = graph.node![0].output!))).toContain("v0 is made twice");
  expect(changed((graph) => (graph.node![0].domain = "com.microsoft"))).toEqual([
    'Gather is not in domain "com.microsoft"',
  ]);
  expect(changed((graph) => (graph.node![0].attribute![0].type = AttributeProto.AttributeType.FLOAT))).toEqual([
    "Gather v0 has axis as i, expected f",
  ]);
  expect(changed((graph) => (graph.output![0].name = "other"))).toEqual(["nothing makes other"]);
  expect(changed((graph) => (graph.input![0].type!.tensorType!.shape!.dim![0] = {}))).toEqual([
    "value tokens has no type",
  ]);
});
