export { consistentHash } from "./consistent-hash.ts";
export { dynamoKv } from "./dynamo-kv.ts";
export { leastLoaded } from "./least-loaded.ts";
export { powerOfTwo } from "./power-of-two.ts";
export { prefixAffinity } from "./prefix-affinity.ts";
export { random } from "./random.ts";
export { roundRobin } from "./round-robin.ts";
export { sessionAffinity } from "./session-affinity.ts";
