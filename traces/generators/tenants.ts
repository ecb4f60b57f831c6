import type { Random } from "../../core/random.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { exponential, zipf } from "../random.ts";
import { common, count, generator, mean, perSecond, seconds, tokens, type Values, zipfExponent } from "./generator.ts";
import { documentSigma, type Job, Jobs, lengthOf, nanos, outputOf, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

const [interactive, scan] = [1, 2];

const parameters = {
  ...common,
  tenants: count("number of tenants, each a namespace", 8, 1, 10_000),
  requestsPerS: perSecond("requests per second of all tenants, without scans", 8),
  burst: mean("rate of a tenant in a burst, as a multiple of its mean rate", 4, 1, 1000),
  burstS: seconds("mean length of a burst", 15, 0.01),
  prompts: count("prompts of a tenant", 30, 1, 10_000),
  zipf: zipfExponent("the prompts of a tenant"),
  promptTokens: tokens("mean tokens of a tenant's prompt", 1000),
  userTokens: tokens("mean tokens of a user message", 100),
  outputTokens: tokens("mean output tokens", 120),
  scanEveryS: seconds("time from the start of a scan to that of the next", 120, 1),
  scanDocuments: count("documents in a scan; 0 = no scans", 120, 0, 100_000),
  scanTokens: tokens("tokens of a scanned document", 4000),
  scanPerS: perSecond("requests per second of a scan", 10),
};

type Names = Exclude<keyof typeof parameters, symbol>;

/**
 * Tenants of one service: each is a namespace with its own prompts (Zipf), and its requests arrive in bursts, a Poisson
 * process that is switched on and off at random. Tenant 1 also scans its documents at a fixed interval, one request a
 * document, all in the same order: more content than a cache holds, so that LRU evicts the other tenants' prompts for it.
 * Scans are category 2 and have a lower priority.
 */
export const tenants = generator({
  name: "tenants",
  about: "tenants with namespaces, bursts of requests, and the periodic scans of one of them",
  source: "bursts: BurstGPT (arXiv 2401.17644); scans: ARC (FAST '03), LRU-K (SIGMOD '93)",
  parameters,
  start(values) {
    const { tenants, scanDocuments } = values;
    const jobs = tenants + (scanDocuments > 0 ? 1 : 0);
    let started = 0;
    // Every tenant is one job without end, and so are the scans; all of them begin at once.
    const starts = () => (started++ < jobs ? 0 : Number.POSITIVE_INFINITY);
    return new Jobs(values.unitTokens, starts, (_, job) => (job < tenants ? requestsOf(job, values) : scansOf(values)));
  },
});

/** The requests of users of a tenant. */
function* requestsOf(tenant: number, values: Values<Names>): Job {
  const { seed, promptTokens } = values;
  const random = stream(seed, 1, tenant);
  const popular = zipf(random, values.prompts, values.zipf);
  const prompts: Prompt[] = [];
  const lengths = stream(seed, 2, tenant);
  for (const atNs of bursts(stream(seed, 3, tenant), values)) {
    const shared = (prompts[popular()] ??= new Prompt(undefined, lengthOf(lengths, promptTokens, documentSigma)));
    const about = { namespace: tenant + 1, category: interactive, priority: 0, markedTokens: shared.tokens };
    const prompt = shared.extend(lengthOf(random, values.userTokens));
    yield { atNs, prompt, ...outputOf(random, values.outputTokens), ...about, sent: { row: -1 } };
  }
}

/** Arrivals of a tenant: bursts and pauses of random lengths, with the same mean rate for all tenants. */
function* bursts(random: Random, values: Values<Names>): Generator<Nanos, never> {
  const { burst, burstS } = values;
  const ratePerS = (values.requestsPerS / values.tenants) * burst;
  const pauseS = () => exponential(random) * burstS * (burst - 1);
  let atS = random.unit() * burst < 1 ? 0 : pauseS();
  let burstLeftS = exponential(random) * burstS;
  for (;;) {
    let waitS = exponential(random) / ratePerS;
    // The total length of many pauses is close to its mean.
    if (waitS > 1000 * burstS) {
      atS += waitS * (burst - 1);
      burstLeftS = waitS + exponential(random) * burstS;
    }
    for (; waitS > burstLeftS; burstLeftS = exponential(random) * burstS) {
      waitS -= burstLeftS;
      atS += burstLeftS + pauseS();
    }
    burstLeftS -= waitS;
    atS += waitS;
    yield nanos(atS);
  }
}

/** The scans of the first tenant: the same documents in the same order. A scan begins when the one before has ended. */
function* scansOf(values: Values<Names>): Job {
  const documents = Array.from({ length: values.scanDocuments }, () => new Prompt(undefined, values.scanTokens));
  const about = { outputTokens: 1, maxOutputTokens: 1, namespace: 1, category: scan, priority: -1 };
  const scanS = Math.max(values.scanEveryS, values.scanDocuments / values.scanPerS);
  for (let scans = 1; ; scans++) {
    for (const [i, prompt] of documents.entries()) {
      const atNs = nanos(scans * scanS + i / values.scanPerS);
      yield { atNs, prompt, ...about, sent: { row: -1 } };
    }
  }
}
