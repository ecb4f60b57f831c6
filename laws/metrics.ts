import { cacheReport } from "../core/cache/report.ts";
import { replays } from "./configs.ts";
import { type Law, near, require, same } from "./law.ts";
import { hitsOf, replayOf, sum } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

const law: Law = { name: "metrics", statement: "all invariants hold after every step, and the metrics add up" };

const ratio = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);

/** Recomputes every metric of a report from the result of each request. */
export const metrics: Trial = {
  laws: [law],
  runs: 120,
  cases: replays,
  check({ workload, config }, parts) {
    for (const scheduler of parts.schedulers) {
      const result = replayOf(workload, config, parts, { scheduler, audit: true, events: true });
      const { cache, requests } = result;
      const report = cacheReport(cache.counters);
      const { hitRatio, missTokens } = report;
      const missed = sum(Object.values(missTokens));
      same(law, "lookupTokens", report.lookupTokens, report.hitTokens + missed + report.refusedTokens);
      const rows = workload.requests.map((_, r) => ({
        hit: requests.hitBlocks[r],
        hitTokens: requests.hitTokens[r],
        blocks: requests.promptBlocks[r],
        full: Math.floor(requests.inputTokens[r] / cache.blockTokens),
        tokens: requests.inputTokens[r],
      }));
      const hits = sum(hitsOf(result));
      const blocks = sum(rows.map((row) => row.blocks));
      const tokens = sum(rows.map((row) => row.tokens));
      const full = sum(rows.map((row) => row.full));
      same(law, "lookups", report.lookups, rows.length);
      same(law, "lookupBlocks", report.lookupBlocks, blocks);
      same(law, "lookupTokens", report.lookupTokens, tokens);
      same(law, "refusedRequests", report.refusedRequests, sum(requests.refused));
      same(law, "hitRatio.block", hitRatio.block, ratio(hits, blocks));
      same(law, "hitRatio.token", hitRatio.token, ratio(sum(rows.map((row) => row.hitTokens)), tokens));
      const fullHits = sum(rows.map((row) => Math.min(row.hit, row.full)));
      same(law, "hitRatio.fullBlock", hitRatio.fullBlock, ratio(fullHits, full));
      const meanBlock = sum(rows.map((row) => ratio(row.hit, row.blocks))) / rows.length;
      near(law, "hitRatio.requestMeanBlock", hitRatio.requestMeanBlock, meanBlock);
      const meanToken = sum(rows.map((row) => row.hitTokens / row.tokens)) / rows.length;
      near(law, "hitRatio.requestMeanToken", hitRatio.requestMeanToken, meanToken);
      const { anyResidentBlock, block } = hitRatio;
      require(law, anyResidentBlock >= block, () => `anyResidentBlock ${anyResidentBlock} < block ratio ${block}`);
      if (config.index.storesNothing) same(law, "hits of an index that stores no blocks", hits, 0);
    }
  },
};
