import {
  type Attribute,
  type DataType,
  type Dimensions,
  type Initializer,
  modelBytes,
  type Node,
  type Value,
} from "./proto.ts";

/** The name of a value in a graph: the output of an operator and input of others. */
export type Ref = string;

/** A tensor whose data are in a separate file. */
export interface StoredTensor {
  readonly name: Ref;
  /** Offset in the file; a multiple of the page size, so that it can be memory-mapped. */
  readonly offset: number;
  readonly bytes: number;
  read(): Uint8Array;
}

export interface OpOptions {
  readonly attributes?: Readonly<Record<string, Attribute>>;
  /** "com.microsoft" for ONNX Runtime's own operators. */
  readonly domain?: string;
  /** The name of the result, if it is an output of the graph. */
  readonly name?: Ref;
}

const pageBytes = 4096;
/** Smaller tensors are in the model itself, where the runtime can optimize with their values. */
const smallBytes = 1024;

/** Builder of an ONNX graph. */
export class Graph {
  readonly stored: StoredTensor[] = [];
  readonly #file: string;
  readonly #nodes: Node[] = [];
  readonly #initializers: Initializer[] = [];
  readonly #constants = new Map<string, Ref>();
  readonly #inputs: Value[] = [];
  readonly #outputs: Value[] = [];
  readonly #intermediates: Value[] = [];
  #count = 0;
  #end = 0;

  /** Large tensors are stored in `file`, in the model's folder. */
  constructor(file: string) {
    this.#file = file;
  }

  /** Bytes of the file with the large tensors. */
  get storedBytes(): number {
    return this.#end;
  }

  input(name: Ref, type: DataType, shape: Dimensions): Ref {
    this.#inputs.push({ name, type, shape });
    return name;
  }

  output(name: Ref, type: DataType, shape: Dimensions): void {
    this.#outputs.push({ name, type, shape });
  }

  /** Declares the shape of a value, where the runtime cannot infer that it is equal to another's. */
  shaped(value: Ref, shape: Dimensions): Ref {
    this.#intermediates.push({ name: value, type: "float", shape });
    return value;
  }

  op(type: string, inputs: readonly Ref[], { attributes = {}, domain = "", name }: OpOptions = {}): Ref {
    const result = name ?? `v${this.#count++}`;
    this.#nodes.push({ type, domain, name: `${type} ${result}`, inputs, outputs: [result], attributes });
    return result;
  }

  /** A tensor that is read when the file is written. */
  weight(name: Ref, type: "float" | "uint8", shape: readonly number[], read: () => Float32Array | Uint8Array): Ref {
    const bytes = shape.reduce((product, length) => product * length, type === "float" ? 4 : 1);
    const numbers = () => bytesOf(read());
    if (bytes < smallBytes) {
      this.#initializers.push({ name, type, shape, data: numbers() });
      return name;
    }
    const offset = Math.ceil(this.#end / pageBytes) * pageBytes;
    this.#end = offset + bytes;
    this.stored.push({ name, offset, bytes, read: numbers });
    this.#initializers.push({ name, type, shape, data: { file: this.#file, offset, bytes } });
    return name;
  }

  ints(...values: number[]): Ref {
    return this.#constant("int64", [values.length], BigInt64Array.from(values, BigInt));
  }

  int(value: number): Ref {
    return this.#constant("int64", [], BigInt64Array.of(BigInt(value)));
  }

  float(value: number): Ref {
    return this.#constant("float", [], Float32Array.of(value));
  }

  floats(shape: readonly number[], values: readonly number[]): Ref {
    return this.#constant("float", shape, Float32Array.from(values));
  }

  bytes(): Uint8Array {
    return modelBytes({
      nodes: this.#nodes,
      initializers: this.#initializers,
      inputs: this.#inputs,
      outputs: this.#outputs,
      between: this.#intermediates,
      opsets: { "": 24, "com.microsoft": 1 },
    });
  }

  /** Equal constants are stored once. */
  #constant(type: DataType, shape: readonly number[], values: Float32Array | BigInt64Array): Ref {
    const key = `${type} ${shape} ${values}`;
    let name = this.#constants.get(key);
    if (name === undefined) {
      name = `c${this.#constants.size}`;
      this.#constants.set(key, name);
      this.#initializers.push({ name, type, shape, data: bytesOf(values) });
    }
    return name;
  }
}

function bytesOf(numbers: ArrayBufferView): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}
