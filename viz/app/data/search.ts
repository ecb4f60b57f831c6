import type { BrokenRun, RunRow } from "../../api.ts";
import { policyOf } from "./format.ts";

type Row = RunRow | BrokenRun;

/**
 * A function that returns whether a run contains all words of a search; a word with = is the beginning of a setting or of a tag:
 * gpu=h200, tag=paper.
 */
export function searchFor(query: string): (row: Row) => boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return (row) => {
    if (words.length === 0) return true;
    const { text, settings } = searchable(row);
    return words.every((word) =>
      word.includes("=") ? settings.some((setting) => setting.startsWith(word)) : text.includes(word),
    );
  };
}

interface Searchable {
  /** The name, the tags, the notes, the policy and the values of all settings. */
  readonly text: string;
  /** As name=value. */
  readonly settings: readonly string[];
}

const searchables = new WeakMap<Row, Searchable>();

/** What the search finds a run by, in lower case. */
function searchable(row: Row): Searchable {
  const known = searchables.get(row);
  if (known) return known;
  const found =
    "problem" in row ? { text: `${row.id} ${row.problem}`.toLowerCase(), settings: [] } : ofRun(row, row.settings);
  searchables.set(row, found);
  return found;
}

function ofRun({ notes = {}, ...row }: RunRow, settings: RunRow["settings"]): Searchable {
  const { id, trace, target, preset, index, eviction, allocator, scheduler, blocks, blockTokens, requests } = row;
  const { name = "", tags = [], text = "" } = notes;
  const values = Object.values(settings);
  const words = [id, name, ...tags, text, trace, target, policyOf(row), index, scheduler, allocator, ...values];
  const named = { trace, target, preset, index, eviction, allocator, scheduler, blocks, blockTokens, requests };
  const pairs = [...Object.entries({ ...named, ...settings }), ...tags.map((tag) => ["tag", tag])];
  return {
    text: words.join(" ").toLowerCase(),
    settings: pairs.map(([name, value]) => `${name}=${value}`.toLowerCase()),
  };
}
