import { InputError } from "../../core/errors.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";
import { readTextFile } from "../../traces/read-text.ts";

/** A price per hour of one GPU, and where it is from. */
export interface GpuPrice {
  readonly perHour: number;
  readonly source: string;
}

export interface Prices {
  readonly currency: string;
  /** By name of the GPU. */
  readonly gpus: ReadonlyMap<string, GpuPrice>;
  /** The user's file; undefined for the built-in table. */
  readonly file?: string | undefined;
}

/** List prices on demand, in US dollars. They differ by provider several times over and change; docs/sizing.md has their addresses. */
const builtIn: Readonly<Record<string, readonly [perHour: number, source: string]>> = {
  "a100-40gb": [1.99, "Lambda, 2026-11-16"],
  "a100-80gb": [1.79, "RunPod Secure Cloud, 2026-11-09"],
  h100: [3.99, "RunPod Secure Cloud, 2026-11-09"],
  h200: [4.59, "RunPod, 2026-10-07"],
  b200: [6.79, "RunPod, 2026-10-07"],
  l40s: [0.79, "RunPod, 2026-03-10"],
  "rtx-4090": [0.34, "RunPod, 2026-03-10"],
  "rtx-pro-6000": [2.04, "Akash, 2026-09-20"],
  "rtx-pro-6000-workstation": [1.45, "Akash, 2026-09-20"],
};

const builtInPrices: Prices = {
  currency: "USD",
  gpus: new Map(Object.entries(builtIn).map(([gpu, [perHour, source]]) => [gpu, { perHour, source }])),
};

/** The built-in prices, or those of a user's file. @throws InputError naming the file */
export async function pricesFrom(file: string | undefined): Promise<Prices> {
  if (file === undefined) return builtInPrices;
  let given: unknown;
  try {
    given = JSON.parse(await readTextFile(file));
  } catch (error) {
    if (error instanceof InputError) throw error;
    throw new InputError(`${file}: is not JSON (${(error as Error).message})`);
  }
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InputError(`${file}: expected an object of prices by GPU, such as {"h200": 4.5}`);
  const { currency = "USD", ...prices } = given as Record<string, unknown>;
  if (typeof currency !== "string" || !/^[A-Z]{3}$/.test(currency))
    throw new InputError(`${file}: currency is ${JSON.stringify(currency)}, expected three letters such as "EUR"`);
  const gpus = new Map<string, GpuPrice>();
  for (const [name, perHour] of Object.entries(prices)) {
    if (typeof perHour !== "number" || !(perHour > 0 && perHour <= mostPerHour))
      throw new InputError(
        `${file}: the price of ${name} is ${JSON.stringify(perHour)}, expected a number above 0, up to ${mostPerHour}`,
      );
    gpus.set(gpuNamed(name, file), { perHour, source: file });
  }
  return { currency, gpus, file };
}

/** So that costs in millionths are exact. */
const mostPerHour = 100_000;

function gpuNamed(name: string, file: string): string {
  try {
    return hardwareNamed(name).name;
  } catch (error) {
    throw new InputError(`${file}: ${(error as Error).message}`);
  }
}

/** @throws InputError if the table has no price of the GPU */
export function priceOf({ gpus, file }: Prices, gpu: string): GpuPrice {
  const price = gpus.get(gpu);
  if (price) return price;
  throw new InputError(
    file === undefined
      ? `there is no built-in price of ${gpu}; give --prices FILE with one, such as {"${gpu}": 2.5}`
      : `${file}: has no price of ${gpu}`,
  );
}
