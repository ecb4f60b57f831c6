import type { Positions } from "../model/decoder.ts";
import { names } from "../onnx/decoder.ts";
import { Tensor } from "./onnxruntime.ts";

type Rope = Positions & { readonly kind: "rope" };

/** Cosines and sines of rotary embeddings for all positions used so far. */
export class RotaryTable {
  readonly #rope: Rope;
  #positions = 0;
  #inputs: Readonly<Record<string, Tensor>> = {};

  constructor(rope: Rope) {
    this.#rope = rope;
  }

  /** Tables [positions, headDim / 2] with at least this many positions. */
  inputs(positions: number): Readonly<Record<string, Tensor>> {
    if (positions > this.#positions) this.#extend(2 ** Math.ceil(Math.log2(Math.max(512, positions))));
    return this.#inputs;
  }

  #extend(positions: number): void {
    const { inverseFrequencies, factor } = this.#rope;
    const width = inverseFrequencies.length;
    const cosines = new Float32Array(positions * width);
    const sines = new Float32Array(positions * width);
    for (let position = 0, i = 0; position < positions; position++)
      for (let pair = 0; pair < width; pair++, i++) {
        const angle = position * inverseFrequencies[pair];
        cosines[i] = Math.cos(angle) * factor;
        sines[i] = Math.sin(angle) * factor;
      }
    this.#positions = positions;
    this.#inputs = {
      [names.cosines]: new Tensor("float32", cosines, [positions, width]),
      [names.sines]: new Tensor("float32", sines, [positions, width]),
    };
  }
}
