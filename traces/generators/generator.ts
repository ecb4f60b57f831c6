import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { type Trace, TraceBuilder, type TraceSource } from "../../core/trace/trace.ts";

/** A number that a generator depends on. Help, documentation, validation and types are derived from this declaration. */
export interface Parameter {
  /** A noun phrase that begins in lower case. */
  readonly about: string;
  readonly default: number;
  readonly least: number;
  readonly most: number;
  /** Such as "tokens"; absent for counts, shares and exponents. */
  readonly unit?: string;
  readonly integer: boolean;
}

/** Requests in the order of their arrival. */
export interface Workload {
  /** Appends the next request. */
  addNext(builder: TraceBuilder): void;
}

/** Values of all parameters. */
export type Values<Name extends string = string> = { readonly [Each in Name]: number };

/** Every generator has these parameters. */
export type CommonName = "requests" | "seed" | "unitTokens";

/**
 * A kind of generated traffic. To add one, write a file that exports a `Generator`, and add a line to `registry.ts`.
 * The same values generate the same trace on every machine.
 */
export interface Generator<Name extends string = string, Kind extends string = string> {
  /** As on the command line: `kvlab trace generate NAME`. */
  readonly name: Kind;
  /** One line: what the sessions do and which content they share. */
  readonly about: string;
  /** Papers or traces that describe the workload. */
  readonly source: string;
  readonly parameters: { readonly [Each in Name | CommonName]: Parameter };
  /** @throws InputError if values contradict each other. */
  start(values: Values<Name | CommonName>): Workload;
}

/** Options of a generator: any of its parameters. */
export type OptionsOf<Kind> =
  Kind extends Generator<infer Name> ? { readonly [Each in Name | CommonName]?: number | undefined } : never;

/** Declares a generator; its name and the names of its parameters become part of its type. */
export const generator = <Name extends string, Kind extends string>(
  declaration: Generator<Name, Kind>,
): Generator<Name, Kind> => declaration;

export const count = (about: string, usual: number, least: number, most: number): Parameter => ({
  ...{ about, default: usual, least, most },
  integer: true,
});

/** A parameter of at most 1,000,000 tokens. */
export const tokens = (about: string, usual: number, least = 1, most = 1_000_000): Parameter => ({
  ...{ about, default: usual, least, most },
  unit: "tokens",
  integer: true,
});

export const seconds = (about: string, usual: number, least = 0, most = 86_400): Parameter => ({
  ...{ about, default: usual, least, most },
  unit: "seconds",
  integer: false,
});

export const perSecond = (about: string, usual: number, least = 1e-3): Parameter => ({
  ...{ about, default: usual, least, most: 1e6 },
  unit: "per second",
  integer: false,
});

export const mean = (about: string, usual: number, least: number, most: number): Parameter => ({
  ...{ about, default: usual, least, most },
  integer: false,
});

export const share = (about: string, usual: number): Parameter => ({
  ...{ about, default: usual, least: 0, most: 1 },
  integer: false,
});

export const zipfExponent = (about: string, usual = 1): Parameter => ({
  about: `Zipf exponent of ${about}: the k-th is used k^-zipf times as often as the first`,
  ...{ default: usual, least: 0, most: 10 },
  integer: false,
});

export const outputRate = perSecond("output tokens per second; their generation delays the next request", 40, 0.1);

/** The parameters of every generator. */
export const common = {
  requests: count("number of requests", 4000, 1, 100_000_000),
  seed: count("random seed", 1, 0, 2 ** 32 - 1),
  unitTokens: tokens("tokens per content id", 16, 2, 65_536),
};

const batchRequests = 8192;

/**
 * The generated trace, with the default of every parameter that is not given.
 *
 * @throws InputError if a parameter is unknown or out of range.
 */
export function generated(generator: Generator, options: Partial<Values> = {}): TraceSource {
  const values = valuesOf(generator, options);
  return { format: generator.name, files: [], content: "blocks", batches: () => batches(generator, values) };
}

async function* batches(generator: Generator, values: Values<CommonName>): AsyncGenerator<Trace> {
  const builder = new TraceBuilder(values.unitTokens);
  const workload = generator.start(values);
  for (let left = values.requests; left > 0; left--) {
    workload.addNext(builder);
    if (builder.requestCount === batchRequests) yield checked(builder.take());
  }
  if (builder.requestCount > 0) yield checked(builder.take());
}

/** @throws InputError if arrival times are too large for exact nanoseconds. */
function checked(batch: Trace): Trace {
  if (batch.arrivalNs[batch.requestCount - 1] <= Number.MAX_SAFE_INTEGER) return batch;
  throw new InputError(
    "the requests arrive over more than 104 days (2^53 ns), expected fewer requests or a higher rate",
  );
}

/** All values, checked. @throws InputError */
function valuesOf({ name, parameters }: Generator, options: Partial<Values>): Values<CommonName> {
  const values: Record<string, number> = {};
  for (const [each, parameter] of Object.entries(parameters)) values[each] = parameter.default;
  for (const [each, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(parameters, each)) throw unknownParameter(name, each, Object.keys(parameters));
    checkValue(each, value, (parameters as Record<string, Parameter>)[each]);
    values[each] = value;
  }
  return values as Values<CommonName>;
}

function unknownParameter(generator: string, name: string, known: readonly string[]): InputError {
  const near = nearest(name, known);
  return new InputError(
    `${generator} has no option "${name}"${near ? `: did you mean "${near}"?` : `, expected one of ${known.join(", ")}`}`,
  );
}

function checkValue(name: string, value: number, { least, most, integer }: Parameter): void {
  if (value >= least && value <= most && (!integer || Number.isInteger(value))) return;
  throw new InputError(
    `${name} is ${value}, expected ${integer ? "a whole number" : "a number"} from ${least} to ${most}`,
  );
}
