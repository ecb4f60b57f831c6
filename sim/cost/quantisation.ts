import { InputError } from "../../core/errors.ts";
import type { ComputeType } from "./model-shape.ts";

/** Bytes per parameter, and the type of matrix products if quantisation changes it. */
export interface Quantisation {
  /** The layers' matrices without routed experts. Embeddings and the output head are not quantised. */
  readonly weightBytes: number;
  readonly expertWeightBytes: number;
  readonly compute?: ComputeType;
}

/**
 * Reads `quantization_config` of a model's `config.json`. Weights in groups have a scale of 16 bits each, and a zero
 * point of as many bits as a weight unless they are symmetric.
 * @throws InputError that begins with `where`: unknown method or bit width.
 */
export function quantisation(config: unknown, numberBytes: number, where: string): Quantisation {
  if (config === undefined || config === null) return { weightBytes: numberBytes, expertWeightBytes: numberBytes };
  const fields = record(config, `${where}: quantization_config`);
  const method = fields["quant_method"];
  switch (method) {
    case "awq":
      return grouped(fields["bits"] ?? fields["w_bit"], fields["group_size"] ?? fields["q_group_size"], false, where);
    case "gptq":
      return grouped(fields["bits"], fields["group_size"], fields["sym"] !== false, where);
    case "fp8":
    case "fbgemm_fp8":
      return { weightBytes: 1, expertWeightBytes: 1, compute: "fp8" };
    // Four bits, and an eight-bit scale for each 32 (OCP Microscaling); only experts are quantised.
    case "mxfp4":
      return { weightBytes: numberBytes, expertWeightBytes: (4 + 8 / 32) / 8 };
    case "bitsandbytes":
      if (fields["load_in_4bit"] === true) return grouped(4, 64, true, where);
      if (fields["load_in_8bit"] === true) return { weightBytes: 1, expertWeightBytes: 1 };
      break;
    case "compressed-tensors":
      return compressedTensors(fields, where);
  }
  const known = "awq, gptq, fp8, fbgemm_fp8, mxfp4, bitsandbytes, compressed-tensors";
  throw new InputError(
    `${where}: quantization_config has quant_method ${JSON.stringify(method)}, expected one of ${known}`,
  );
}

function grouped(bits: unknown, groupSize: unknown, symmetric: boolean, where: string): Quantisation {
  if (bits !== 2 && bits !== 3 && bits !== 4 && bits !== 8)
    throw new InputError(
      `${where}: quantization_config has weights of ${JSON.stringify(bits)} bits, expected 2, 3, 4 or 8`,
    );
  // −1 or absent: one scale per row, which is negligible.
  const scales = typeof groupSize === "number" && groupSize > 0 ? (16 + (symmetric ? 0 : bits)) / groupSize : 0;
  const weightBytes = (bits + scales) / 8;
  return { weightBytes, expertWeightBytes: weightBytes };
}

/** One group of layers. Modules under `ignore` are counted as if they were quantised, too. */
function compressedTensors(fields: Record<string, unknown>, where: string): Quantisation {
  const groups = Object.values(record(fields["config_groups"], `${where}: quantization_config.config_groups`));
  if (groups.length !== 1)
    throw new InputError(`${where}: quantization_config has ${groups.length} config_groups, and only 1 is supported`);
  const group = record(groups[0], `${where}: quantization_config's group`);
  const weights = record(group["weights"], `${where}: quantization_config's weights`);
  const stored = grouped(weights["num_bits"], weights["group_size"], weights["symmetric"] !== false, where);
  const activations = group["input_activations"];
  if (activations === undefined || activations === null) return stored;
  // int8 and fp8 products are equally fast.
  return { ...stored, compute: "fp8" };
}

function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new InputError(`${what} is ${JSON.stringify(value)}, expected an object`);
}
