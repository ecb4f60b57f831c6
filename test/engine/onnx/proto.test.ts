import { InferenceSession, Tensor } from "onnxruntime-node";
import { expect, test } from "vitest";
import { randomConfig, randomWeights } from "../../../engine/model/random.ts";
import { decoderGraph } from "../../../engine/onnx/decoder.ts";
import { Graph } from "../../../engine/onnx/graph.ts";

type Field = { readonly number: number; readonly value: bigint | Uint8Array };

/** Reads the wire format, independently of ONNX. */
function fieldsOf(bytes: Uint8Array): Field[] {
  const fields: Field[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = view.getUint8(at++);
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const take = (length: number) => {
    expect(at + length, "a length within the message").toBeLessThanOrEqual(bytes.length);
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const number = key >> 3;
    const kind = key & 7;
    if (kind === 0) fields.push({ number, value: varint() });
    else if (kind === 2) fields.push({ number, value: take(Number(varint())) });
    else {
      expect(kind, "kind of a field").toBe(5);
      fields.push({ number, value: take(4) });
    }
  }
  return fields;
}

const all = (bytes: Uint8Array, number: number) =>
  fieldsOf(bytes)
    .filter((field) => field.number === number)
    .map(({ value }) => value as Uint8Array);
const one = (bytes: Uint8Array, number: number) => all(bytes, number)[0];
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const numbers = (bytes: Uint8Array, number: number) =>
  fieldsOf(bytes)
    .filter((field) => field.number === number)
    .map(({ value }) => value as bigint);

test("a small model has the fields of onnx.proto, and computes", async () => {
  const graph = new Graph("weights.bin");
  graph.input("x", "float", ["rows", 2]);
  graph.output("y", "float", ["rows", 3]);
  const weight = graph.weight("w", "float", [2, 3], () => Float32Array.of(1, 2, 3, 4, 5, 6));
  const turned = graph.op("Transpose", [weight], { attributes: { perm: { ints: [1, 0] } } });
  const product = graph.op("Gemm", ["x", turned], {
    attributes: { transB: { int: 1 }, alpha: { float: 0.5 } },
  });
  graph.op("Gelu", [graph.op("Add", [product, graph.float(-1)])], {
    attributes: { approximate: { text: "tanh" } },
    name: "y",
  });
  const bytes = graph.bytes();

  // ModelProto: 1 ir_version, 7 graph, 8 opset_import.
  expect(numbers(bytes, 1)).toEqual([10n]);
  expect(all(bytes, 8).map((opset) => [text(one(opset, 1)), numbers(opset, 2)])).toEqual([
    ["", [24n]],
    ["com.microsoft", [1n]],
  ]);
  // GraphProto: 1 node, 5 initializer, 11 input, 12 output. NodeProto: 1 input, 2 output, 4 op_type, 5 attribute.
  const written = one(bytes, 7);
  const nodes = all(written, 1);
  expect(nodes.map((node) => text(one(node, 4)))).toEqual(["Transpose", "Gemm", "Add", "Gelu"]);
  expect(all(nodes[1], 1).map(text)).toEqual(["x", turned]);
  expect(all(nodes[1], 2).map(text)).toEqual([product]);
  // AttributeProto: 1 name, 2 f, 3 i, 4 s, 8 ints, 20 type (FLOAT 1, INT 2, STRING 3, INTS 7).
  const [perm] = all(nodes[0], 5);
  expect([text(one(perm, 1)), numbers(perm, 8), numbers(perm, 20)]).toEqual(["perm", [1n, 0n], [7n]]);
  const [transB, alpha] = all(nodes[1], 5);
  expect([text(one(transB, 1)), numbers(transB, 3), numbers(transB, 20)]).toEqual(["transB", [1n], [2n]]);
  expect([...one(alpha, 2)]).toEqual([0, 0, 0, 0x3f]);
  expect(numbers(alpha, 20)).toEqual([1n]);
  const [approximate] = all(nodes[3], 5);
  expect([text(one(approximate, 4)), numbers(approximate, 20)]).toEqual(["tanh", [3n]]);
  // TensorProto: 1 dims, 2 data_type, 8 name, 9 raw_data.
  const [tensor, minusOne] = all(written, 5);
  expect([text(one(tensor, 8)), numbers(tensor, 1), numbers(tensor, 2)]).toEqual(["w", [2n, 3n], [1n]]);
  expect(one(tensor, 9)).toHaveLength(24);
  expect(numbers(minusOne, 1)).toEqual([]);
  // ValueInfoProto: 1 name, 2 type; TypeProto: 1 tensor_type; 1 elem_type, 2 shape; 1 dim; 1 dim_value or 2 dim_param.
  const [input] = all(written, 11);
  const type = one(one(input, 2), 1);
  const [rows, two] = all(one(type, 2), 1);
  expect([text(one(input, 1)), numbers(type, 1), text(one(rows, 2)), numbers(two, 1)]).toEqual([
    "x",
    [1n],
    "rows",
    [2n],
  ]);
  expect(text(one(one(written, 12), 1))).toBe("y");

  const session = await InferenceSession.create(bytes, { intraOpNumThreads: 1 });
  const { y } = await session.run({ x: new Tensor("float32", Float32Array.of(4, -2), [1, 2]) });
  // 0.5 · x · w − 1 = [−3, −2, −1], and of that gelu.
  const gelu = (v: number) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)));
  [-3, -2, -1].forEach((v, i) => {
    expect(y.data[i]).toBeCloseTo(gelu(v), 6);
  });
  await session.release();
});

test("large tensors are in a separate file, aligned to pages; negative numbers are written", () => {
  const config = randomConfig("tiny");
  const graph = decoderGraph(config, randomWeights(config, 1), "weights.bin");
  const tensors = all(one(graph.bytes(), 7), 5);
  // TensorProto: 13 external_data (1 key, 2 value), 14 data_location (EXTERNAL 1).
  const places = tensors
    .filter((tensor) => numbers(tensor, 14)[0] === 1n)
    .map((tensor) => ({
      name: text(one(tensor, 8)),
      bytes: numbers(tensor, 1).reduce((product, length) => product * Number(length), 4),
      ...Object.fromEntries(all(tensor, 13).map((entry) => [text(one(entry, 1)), text(one(entry, 2))])),
    }));
  expect(places).toEqual(
    graph.stored.map(({ name, offset, bytes }) => ({
      ...{ name, bytes, location: "weights.bin", offset: String(offset), length: String(bytes) },
    })),
  );
  // Embedding, head, and seven matrices a layer.
  expect(places).toHaveLength(2 + 7 * config.layers);
  graph.stored.forEach(({ offset, bytes, read }, i) => {
    expect(offset % 4096).toBe(0);
    expect(offset + bytes).toBeLessThanOrEqual(graph.stored[i + 1]?.offset ?? graph.storedBytes);
    expect(read()).toHaveLength(bytes);
  });
  // −1 as 64 bits.
  const negative = new Graph("");
  negative.op("Softmax", ["x"], { attributes: { axis: { int: -1 } } });
  const [node] = all(one(negative.bytes(), 7), 1);
  expect(numbers(one(node, 5), 3)).toEqual([2n ** 64n - 1n]);
});

test("equal constants are stored once", () => {
  const graph = new Graph("");
  expect(graph.ints(1, 2)).toBe(graph.ints(1, 2));
  expect(graph.ints(1)).not.toBe(graph.int(1));
  expect(graph.int(1)).not.toBe(graph.float(1));
  expect(graph.floats([2, 1], [1, 2])).not.toBe(graph.floats([1, 2], [1, 2]));
});
