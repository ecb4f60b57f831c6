import type { RouterPlugin } from "../../core/plugins/index.ts";

/** Interval at which vLLM's coordinator publishes the numbers of requests, in ns. */
const intervalNs = 100_000_000;

/**
 * vLLM's front end with data parallelism: the replica with the lowest 4 × waiting + running requests; of equals the first. The
 * numbers are updated every 100 ms; requests routed since then count as waiting. We update them at the first request after 100 ms.
 */
export const vllmDp: RouterPlugin = {
  name: "vllm-dp",
  about: "the lowest 4 × waiting + running requests, by numbers of up to 100 ms ago (vLLM's data parallelism)",
  source: "vLLM (DPLBAsyncMPClient, DPCoordinator)",
  create: ({ replicaCount }) => {
    const scores = new Float64Array(replicaCount);
    let nextNs = Number.NEGATIVE_INFINITY;
    return {
      route: (_request, replicas, nowNs) => {
        if (nowNs >= nextNs) {
          replicas.forEach(({ waitingCount, runningCount }, i) => {
            scores[i] = 4 * waitingCount + runningCount;
          });
          nextNs = nowNs + intervalNs;
        }
        const least = scores.indexOf(Math.min(...scores));
        scores[least] += 4;
        return least;
      },
    };
  },
};
