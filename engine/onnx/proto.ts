/**
 * Serializes ONNX models: the messages of onnx.proto (onnx.ai, IR version 10) that a graph needs, in the wire format of
 * protocol buffers. Each function below writes one message; the numbers are the fields of onnx.proto.
 */
export const dataType = { float: 1, uint8: 2, int32: 6, int64: 7, bool: 9 } as const;
export type DataType = keyof typeof dataType;

/** A dimension has a length or, where it varies from run to run, a name. */
export type Dimensions = readonly (number | string)[];

export type Attribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly ints: readonly number[] }
  | { readonly text: string };

export interface Node {
  readonly type: string;
  readonly domain: string;
  readonly name: string;
  /** An omitted input is the empty string. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
}

/** A constant, with its data in the model or at an offset in another file of the same folder. */
export interface Initializer {
  readonly name: string;
  readonly type: DataType;
  readonly shape: readonly number[];
  readonly data: Uint8Array | { readonly file: string; readonly offset: number; readonly bytes: number };
}

export interface Value {
  readonly name: string;
  readonly type: DataType;
  readonly shape: Dimensions;
}

export interface Model {
  readonly nodes: readonly Node[];
  readonly initializers: readonly Initializer[];
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  /** Shapes of values in between, where the runtime cannot infer them. */
  readonly between: readonly Value[];
  /** Version of each domain's operators; the standard ones are domain "". */
  readonly opsets: Readonly<Record<string, number>>;
}

/** ModelProto. */
export function modelBytes({ nodes, initializers, inputs, outputs, between, opsets }: Model): Uint8Array {
  const graph = new Message().text(2, "decoder");
  for (const node of nodes) graph.message(1, nodeMessage(node));
  for (const initializer of initializers) graph.message(5, tensorMessage(initializer));
  for (const input of inputs) graph.message(11, valueMessage(input));
  for (const output of outputs) graph.message(12, valueMessage(output));
  for (const value of between) graph.message(13, valueMessage(value));
  const model = new Message().int(1, 10).text(2, "kvlab").message(7, graph);
  for (const [domain, version] of Object.entries(opsets))
    model.message(8, new Message().text(1, domain).int(2, version));
  return model.bytes();
}

function nodeMessage({ type, domain, name, inputs, outputs, attributes }: Node): Message {
  const node = new Message();
  for (const input of inputs) node.text(1, input);
  for (const output of outputs) node.text(2, output);
  node.text(3, name).text(4, type);
  for (const [key, value] of Object.entries(attributes)) node.message(5, attributeMessage(key, value));
  return node.text(7, domain);
}

function attributeMessage(name: string, value: Attribute): Message {
  const attribute = new Message().text(1, name);
  if ("float" in value) return attribute.float(2, value.float).int(20, 1);
  if ("int" in value) return attribute.int(3, value.int).int(20, 2);
  if ("text" in value) return attribute.text(4, value.text).int(20, 3);
  for (const int of value.ints) attribute.int(8, int);
  return attribute.int(20, 7);
}

function tensorMessage({ name, type, shape, data }: Initializer): Message {
  const tensor = new Message();
  for (const length of shape) tensor.int(1, length);
  tensor.int(2, dataType[type]).text(8, name);
  if (data instanceof Uint8Array) return tensor.raw(9, data);
  for (const [key, value] of [
    ["location", data.file],
    ["offset", String(data.offset)],
    ["length", String(data.bytes)],
  ])
    tensor.message(13, new Message().text(1, key).text(2, value));
  return tensor.int(14, 1);
}

function valueMessage({ name, type, shape }: Value): Message {
  const dimensions = new Message();
  for (const dimension of shape) {
    const isFixed = typeof dimension === "number";
    dimensions.message(1, isFixed ? new Message().int(1, dimension) : new Message().text(2, dimension));
  }
  const tensor = new Message().int(1, dataType[type]).message(2, dimensions);
  return new Message().text(1, name).message(2, new Message().message(1, tensor));
}

/** A message in the wire format: for each field its number and type, then its value or its length and bytes. */
class Message {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  int(field: number, value: number): this {
    return this.#varint(field << 3).#varint(value);
  }

  float(field: number, value: number): this {
    return this.#varint((field << 3) | 5).#append(new Uint8Array(new Float32Array([value]).buffer));
  }

  text(field: number, value: string): this {
    return this.raw(field, new TextEncoder().encode(value));
  }

  raw(field: number, value: Uint8Array): this {
    return this.#varint((field << 3) | 2)
      .#varint(value.length)
      .#append(value);
  }

  message(field: number, value: Message): this {
    this.#varint((field << 3) | 2).#varint(value.#length);
    for (const part of value.#parts) this.#append(part);
    return this;
  }

  bytes(): Uint8Array {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  /** Seven bits a byte, lowest first, the top bit set on all but the last; a negative number is its 64-bit complement. */
  #varint(value: number): this {
    const bytes: number[] = [];
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
    bytes.push(Number(rest));
    return this.#append(Uint8Array.from(bytes));
  }

  #append(bytes: Uint8Array): this {
    this.#parts.push(bytes);
    this.#length += bytes.length;
    return this;
  }
}
