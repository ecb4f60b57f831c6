import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { chatSource } from "../../traces/generators/chat.ts";

/** The trace of the golden counts. */
export function goldenTrace(): Promise<Trace> {
  return readTrace(chatSource({ requests: 700, seed: 7, unitTokens: 64, systemPrompts: 40 }));
}

/** Five cache sizes, the smallest of which refuses the longest prompts. */
export function goldenCapacities(trace: Trace): number[] {
  const longest = Math.ceil(Math.max(...trace.inputTokens) / trace.unitTokens);
  return [longest - 20, ...[0.05, 0.1, 0.25, 0.5].map((share) => Math.floor(share * trace.distinctKeys))];
}

/** Hit blocks of each policy at these sizes. A new policy needs a line here, and a naive implementation for comparison. */
export const goldenHits: Readonly<Record<string, string>> = {
  "2q": "549 2966 4094 5068 5592",
  arc: "744 3161 4299 5443 6174",
  belady: "911 4354 5507 6408 6483",
  clock: "560 2296 3523 5282 6142",
  continuum: "558 2203 3362 5139 6152",
  "cost-aware": "366 2299 3193 5188 6160",
  fifo: "517 1807 2844 4530 5409",
  filo: "513 2622 3983 5203 6010",
  gdsf: "394 2646 3559 5285 6047",
  "hits-per-token": "688 3246 4009 5401 6162",
  hyperbolic: "570 2399 3613 5376 6156",
  kvflow: "558 2203 3362 5139 6152",
  lfu: "688 3246 4009 5401 6162",
  "lfu-lifetime": "785 3452 4618 5473 6170",
  lirs: "697 3249 4484 5494 6102",
  lru: "558 2203 3362 5139 6152",
  "lru-deepest": "558 2203 3362 5139 6152",
  marconi: "558 2203 3614 5139 6152",
  mru: "482 1208 1916 3420 5040",
  priority: "558 2203 3362 5139 6152",
  "queue-lru": "558 2203 3362 5139 6152",
  random: "338 1042 1591 3154 4743",
  "random-leaf": "389 1668 2700 4377 5668",
  retention: "558 2203 3362 5139 6152",
  "s3-fifo": "624 3256 4358 5353 5966",
  "session-refs": "558 2203 3362 5139 6152",
  sieve: "604 3193 3991 5401 6162",
  slru: "651 2710 3819 5381 6146",
  "t-lru": "558 2203 3362 5139 6152",
  tinylfu: "424 3091 4477 5439 6067",
  ttl: "558 2203 3362 5139 6152",
  unbounded: "6483 6483 6483 6483 6483",
  "w-tinylfu": "543 2978 4443 5379 6062",
  "workload-aware": "562 2147 3480 5138 6147",
};
