/** A notebook that builds as it is: the command that makes its data, one figure, and a text with a number from the data. */
export const notebookText = (name: string): string => `<!doctype html>
<notebook theme="air">
  <title>${name}</title>
  <script id="1" type="text/markdown">
    # Which eviction policy for my traffic?

    Replace \`example\` by a trace of your own. The first block of shell commands makes the data of this notebook, in data/${name}.

    \`\`\`sh
    kvlab curve example --eviction lru,s3-fifo,arc --blocks 1%,2%,5%,10%,25%,50% --bound --json > curves.json
    \`\`\`
  </script>
  <script id="2" type="text/x-typescript">
    import * as Plot from "@observablehq/plot";
    const { curves, distinctBlocks, trace } = await FileAttachment("data/${name}/curves.json").json();
    const rows = curves.flatMap(({ eviction, points }) =>
      points.map(({ blocks, hitRatio }) => ({ eviction, share: blocks / distinctBlocks, hitRatio: hitRatio.block })),
    );
  </script>
  <script id="3" type="text/x-typescript">
    display(Plot.plot({
      title: "Hit ratio by cache size",
      caption: "Requests one at a time. bound: no eviction policy exceeds it.",
      grid: true,
      x: { type: "log", label: "cache size (share of the distinct blocks) →", tickFormat: "~%", ticks: [0.01, 0.02, 0.05, 0.1, 0.25, 0.5] },
      y: { label: "↑ hit ratio by block", tickFormat: ".0%", zero: true },
      color: { legend: true },
      marks: [Plot.lineY(rows, { x: "share", y: "hitRatio", stroke: "eviction", marker: true, tip: true }), Plot.ruleY([0])],
    }));
  </script>
  <script id="4" type="text/markdown">
    The trace has \${trace.requests.toLocaleString("en")} requests and \${distinctBlocks.toLocaleString("en")} distinct blocks.
  </script>
</notebook>
`;
