import type { RunRow } from "../../api.ts";

/** What may tell runs apart, the most telling first. */
type Facts = Readonly<Record<string, string>>;

const rowFacts = (row: RunRow): Facts => ({
  trace: row.trace,
  preset: row.preset ?? "",
  eviction: row.eviction,
  index: row.index,
  scheduler: row.scheduler,
  allocator: row.allocator,
  "block size": `${row.blockTokens}-token blocks`,
  target: row.target,
  requests: `${row.requests} requests`,
});

const named: readonly string[] = Object.keys(rowFacts({} as RunRow));

/** What a report knows beyond the list: rules, seed, and how it was simulated. */
export function reportFacts(report: Readonly<Record<string, unknown>>): Facts {
  const facts: Record<string, string> = {};
  const add = (value: unknown, path: string): void => {
    if (value === null || value === undefined) return;
    if (typeof value === "object") for (const [name, each] of Object.entries(value)) add(each, name);
    else facts[path] ??= `${path} ${value}`;
  };
  const { simulation, engine, seed, warmup } = report;
  const { requestsPerS } = (simulation ?? engine ?? {}) as { requestsPerS?: number | null };
  // The speed that gives this rate is nobody's choice.
  if (typeof requestsPerS === "number") facts["speed"] = `${requestsPerS} requests/s`;
  add(simulation, "simulation");
  add(engine, "engine");
  add((report["policy"] as Record<string, unknown> | undefined)?.["rules"], "rules");
  add(seed, "seed");
  add(warmup, "warmup");
  return facts;
}

/** The fewest words that tell these runs apart, but for their size; the same words for runs that differ in nothing else. */
export function labelsOf(
  rows: readonly RunRow[],
  more: ReadonlyMap<string, Facts>,
  otherwise = ({ preset, eviction }: RunRow) => preset ?? eviction,
): Map<string, string> {
  const all = rows.map((row) => ({ ...rowFacts(row), ...more.get(row.id) }));
  const names = [
    ...named,
    ...new Set(all.flatMap((facts) => Object.keys(facts)).filter((name) => !named.includes(name))),
  ];
  const chosen: string[] = [];
  const groups = (by: readonly string[]) =>
    new Set(all.map((facts) => by.map((name) => facts[name] ?? "").join("\n"))).size;
  for (const name of names) if (groups([...chosen, name]) > groups(chosen)) chosen.push(name);
  const usual = usualOf(all, chosen);
  return new Map(
    rows.map((row, i) => {
      const words = chosen.map((name) => all[i][name]).filter((word) => word && !usual.has(word));
      return [row.id, words.join(" · ") || otherwise(row)];
    }),
  );
}

/** Facts that are of the parts of a policy: they are what runs are called by. */
const parts = ["trace", "preset", "eviction", "index", "scheduler", "allocator"];

/** Words of all other facts that most runs share, and without which every run still has its own: nobody has to read them. */
function usualOf(all: readonly Facts[], chosen: readonly string[]): ReadonlySet<string> {
  const usual = new Set<string>();
  const groups = () =>
    new Set(
      all.map((facts) =>
        chosen
          .map((name) => facts[name] ?? "")
          .filter((word) => !usual.has(word))
          .join("\n"),
      ),
    ).size;
  const distinct = groups();
  for (const name of chosen.filter((each) => !parts.includes(each))) {
    const counts = new Map<string, number>();
    for (const facts of all) counts.set(facts[name] ?? "", (counts.get(facts[name] ?? "") ?? 0) + 1);
    const [word, count] = [...counts].reduce((most, each) => (each[1] > most[1] ? each : most));
    if (word === "" || count <= all.length / 2) continue;
    usual.add(word);
    if (groups() < distinct) usual.delete(word);
  }
  return usual;
}

const colourCount = 8;

/** A colour of the style sheet for each label, in the order in which they come. */
export function coloursOf(labels: Iterable<string>): Map<string, string> {
  const colours = new Map<string, string>();
  for (const label of labels) {
    if (!colours.has(label)) colours.set(label, `var(--c${colours.size % colourCount})`);
  }
  return colours;
}
