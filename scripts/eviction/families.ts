/** The policies of docs/eviction.md, by what they order entries by. Those that were not run, or equal LRU, are left out of figures. */
export const families: readonly { readonly name: string; readonly policies: readonly string[] }[] = [
  {
    name: "recency",
    policies: ["lru", "lru-deepest", "priority", "queue-lru", "retention", "ttl", "clock", "mru"],
  },
  { name: "order of insertion", policies: ["fifo", "sieve", "s3-fifo", "filo"] },
  {
    name: "frequency",
    policies: ["lfu", "lfu-lifetime", "slru", "hyperbolic", "hits-per-token", "tinylfu", "w-tinylfu"],
  },
  { name: "ghosts and reuse distance", policies: ["2q", "arc", "lirs"] },
  { name: "recomputation cost, random", policies: ["cost-aware", "gdsf", "marconi", "random", "random-leaf"] },
  { name: "sessions and reuse times", policies: ["continuum", "kvflow", "session-refs", "t-lru", "workload-aware"] },
];
