/**
 * What an invariant of a `property` case means, of what kvlab checks in every trial:
 *
 *   conserved   free, cached and held blocks are all blocks
 *   unique      no block or slot belongs to two, but for what a shared prefix means
 *   same text   what a hit finds was written for the same tokens
 *   bounded     a prefix is no longer than its prompt, and in whole blocks
 *   sized       a request has the blocks or slots that its tokens need
 *   released    who has ended holds nothing
 *   counted     a block's count is the number of its holders
 *   reserved    a reserved block is never handed out
 */
export type Invariant =
  | "conserved"
  | "unique"
  | "same text"
  | "bounded"
  | "sized"
  | "released"
  | "counted"
  | "reserved";

/** Words of any such sentence, which alone say nothing. */
const plain = words(`a an the of in on at to by for with from and or as is are be been has have had it its their that
  this these those which who every each all any after before when once while during always still never no not none nor
  without cannot neither must can may ever only exactly either also again block blocks slot slots id ids allocation
  allocations request requests sequence sequences allocator cache trie radix tree step iteration iterations operation
  operations time times point live active running do does across`);

interface Reading {
  readonly means: Invariant;
  /** All of it must be there; a sentence with more negations than are spelled here says something else. */
  readonly says: RegExp;
  readonly negations: 0 | 1;
  /** Words that such a sentence may have beside the plain ones. */
  readonly words: ReadonlySet<string>;
}

const several = "(?:two|twice|more than (?:one|once)|another|other|both|multiple|several)";
const negation = "(?:no|not|never|none|without|cannot|neither|nor)";
const block = "(?:blocks?|slots?)(?: ids?)?";
const owned =
  "(?:allocated|used|shared|owned|held|in use|assigned|handed out|given|belongs?|counted|listed|appears?|occurs?|owners?|holders?|free|allocations|requests)";
const sharing = `two twice more than one once another other others both multiple several allocated used shared share
  overlap overlaps overlapping owned held use assigned handed out given belong belongs counted listed appears appear
  occurs occur owner owners holder holders free list cached concurrently simultaneously same non prefix prefixes beyond
  except outside common part parts between different distinct disjoint unique duplicate duplicates duplicated double
  pairwise concurrent exclusive exclusively most at_most hold twice list lists`;
const states = `free available allocated used use held cached stored total num number count sum pool capacity conserved conservation accounted equals plus constant same add adds up somebody's
  somebody one state states reserved unreserved private evictable idle
  everything nothing n conserve preserves preserved returned usable first health check shared size
  together exactly make makes`;
const gone = "lost leak leaks leaked leaking missing disappear disappears disappeared vanish forgotten";
const texts = `hit hits prefix prefixes same token tokens text content contents holds hold contain contains match matches
  matched matching prompt prompts written shared share found cached equal equals identical correspond corresponds
  belong belongs own was were written computed map maps mapped point points use used uses reuse reused reuses return
  returns whose equally`;

const reading = (means: Invariant, negations: 0 | 1, says: string, own: string): Reading => ({
  means,
  negations,
  says: new RegExp(says),
  words: words(own),
});

const readings: readonly Reading[] = [
  reading(
    "conserved",
    1,
    String.raw`\b(?:no|never|not|without|cannot)\b.*\b(?:lost|leak(?:s|ed|ing)?|disappear(?:s|ed)?|vanish|forgotten)\b`,
    `${states} ${gone}`,
  ),
  reading(
    "conserved",
    0,
    String.raw`\b(?:every|each|all)\b.*\bblocks?\b.*\b(?:is|are)\b.*\bfree\b.*\bor\b.*\b(?:allocated|used|in use|held|cached|stored|trie|tree|somebody's)\b`,
    states,
  ),
  reading("conserved", 0, String.raw`\b(?:every|each|all)\b.*\bblocks?\b.*\baccounted for\b`, states),
  reading(
    "conserved",
    0,
    `^(?:conservation of blocks|block conservation|(?:the )?(?:total |number of )*blocks(?: in total)? (?:is|are) (?:conserved|constant|preserved))$`,
    states,
  ),
  reading(
    "conserved",
    0,
    String.raw`\bfree\b.*\b(?:allocated|used|held|cached)\b.*\b(?:add up to|sum to|is constant|are constant|are all|is all|make up)\b`,
    `${states} to make up`,
  ),
  reading(
    "unique",
    1,
    String.raw`(?:\b${negation}\b.*\b${block}|\b${block}\b.*\b(?:never|not|cannot))\b.*(?:\b${owned}\b.*\b${several}|\b${several}\b.*\b${owned})\b|\b(?:allocations|requests|sequences)\b.*\b(?:never|not|cannot)\b.*\bshare\b.*\b${block}\b|\b${negation} (?:two|concurrent|different|distinct)(?: \w+)? (?:allocations|requests|sequences|owners)\b.*\b(?:share|hold|own|use|have)\b.*\b${block}\b`,
    `${sharing} own`,
  ),
  reading(
    "unique",
    1,
    String.raw`\b(?:no|never|not)\b.*\b${block}\b.*\b(?:shared|overlap|duplicated?s?|both)\b|\b(?:no|without)\b.*\b(?:duplicates?|overlap|double)\b.*\b${block}\b|\b${block}\b.*\b(?:not|never)\b.*\b(?:shared|overlap|duplicated)\b|\b(?:allocated|held|in use|used)\b.*\b(?:never|not)\b (?:in|on) the free list$|^the free list has no duplicates$|^(?:no double allocation|blocks have no duplicates)$`,
    sharing,
  ),
  reading(
    "unique",
    0,
    String.raw`\b${block}\b.*\b(?:is|are)\b(?: pairwise| all)? (?:disjoint|unique|distinct)\b|^(?:disjoint|unique|distinct)(?: non prefix)? ${block}$|\b(?:allocations|requests)\b.*\b(?:is|are)(?: pairwise)? disjoint\b`,
    sharing,
  ),
  reading(
    "unique",
    0,
    String.raw`\b${block}\b.*\b(?:has|have|belongs? to|held by|owned by|used by|allocated to|in)\b.*\b(?:at most|exactly|only) (?:one|once)\b`,
    sharing,
  ),
  reading(
    "same text",
    0,
    String.raw`\b(?:hits?|prefix|prefixes|matched|shared|cached|reused)\b.*\b(?:same|match(?:es)?|equals?|identical|whose|own)\b|\bsame\b.*\b(?:prefix|prefixes|tokens)\b.*\b(?:same|share|match)\b`,
    texts,
  ),
  reading(
    "same text",
    0,
    String.raw`\b(?:hits?|prefix)\b.*\b(?:holds?|contains?)\b.*\btokens of (?:the|its|their|that)\b.*\bprompts?\b`,
    texts,
  ),
  reading(
    "bounded",
    0,
    String.raw`\b(?:prefix len|prefix length|prefix|hit|matched tokens|cached tokens)\b.*\b(?:at most|up to|bounded by|le)\b.*\b(?:prompt|prefill|tokens|input)\b`,
    "prefix len length hit matched cached at most up bounded le prompt prefill tokens input number",
  ),
  reading(
    "bounded",
    1,
    String.raw`\b(?:prefix len|prefix length|prefix|hit)\b.*\b(?:never|not|no|cannot)\b.*\b(?:exceeds?|longer than|more than|larger than|greater than|above)\b.*\b(?:prompt|prefill|tokens|input)\b`,
    "prefix len length hit exceed exceeds longer more larger greater above than prompt prefill tokens input",
  ),
  reading(
    "bounded",
    0,
    String.raw`^(?:the )?(?:prefix len|prefix length|prefix) is (?:a multiple of|aligned to|block aligned|in whole)\b`,
    "prefix len length multiple aligned whole size",
  ),
  reading(
    "sized",
    0,
    String.raw`\b(?:number of (?:blocks|slots)|(?:blocks|slots)(?: len| length| count)?)\b.*\b(?:equals?|is|are|cover|covers|enough|match|matches)\b.*\btokens\b`,
    "number len length count equals equal cover covers enough match matches tokens total ceil over size prompt decode prefill divided rounded up many there requested",
  ),
  reading(
    "released",
    0,
    String.raw`\b(?:after|once|when)\b.*\b(?:freed|released|removed|finished|ended|done|freeing|removing|releasing)\b.*\b(?:free|cached|available|evictable|idle)\b|\b(?:all|every|each)\b.*\bblocks?\b.*\b(?:free|available|evictable|idle)\b.*\b(?:after|once|when)\b.*\b(?:freed|released|removed|finished|ended|done)\b`,
    `${states} freed released removed finished ended done everything removing freeing releasing again`,
  ),
  reading(
    "released",
    1,
    String.raw`\b(?:after|once|when)\b.*\b(?:freed|released|removed|finished|ended|done)\b.*\b(?:no|none|nothing|never|not)\b.*\b(?:held|allocated|used|in use|leak(?:s|ed)?|lost)\b|\b(?:no|none|never|not)\b.*\bblocks?\b.*\b(?:held|allocated|in use|leak(?:s|ed)?|lost)\b.*\b(?:after|once|when)\b.*\b(?:freed|released|removed|finished|ended|done)\b`,
    `${states} freed released removed finished ended done remains remain everything ${gone}`,
  ),
  reading(
    "counted",
    0,
    String.raw`\b(?:ref(?:erence)? ?counts?|refcounts?|counts?)\b.*\b(?:equals?|is|are|match(?:es)?)\b.*\b(?:number of|as many as)\b.*\b(?:holders|users|owners|requests|allocations|sequences)\b`,
    "ref reference count counts refcount refcounts equals equal match matches number many holders users owners using hold holding children plus",
  ),
  reading(
    "counted",
    1,
    String.raw`\b(?:ref(?:erence)? ?counts?|refcounts?)\b.*\b(?:never|not|no)\b.*\b(?:negative|below zero)\b|\b(?:no|never)\b.*\b(?:negative ref(?:erence)? ?counts?)\b`,
    "ref reference count counts refcount refcounts negative below zero become becomes go goes get gets",
  ),
  reading(
    "reserved",
    1,
    String.raw`\b(?:reserved blocks?|blocks? 0|block zero|null block)\b.*\b(?:never|not)\b.*\b(?:handed out|allocated|used|given out|returned|in an allocation)\b`,
    "reserved 0 zero null handed out allocated used given returned",
  ),
];

const negations = /\b(?:no|not|never|none|nor|without|cannot|neither|nothing|nobody)\b/g;

/** Which of the invariants a sentence says; undefined if it says anything else. */
export function invariantOf(sentence: string): Invariant | undefined {
  const formula = normalised(sentence);
  if (isConservation(formula)) return "conserved";
  const text = formula.replaceAll(" = ", " equals ").replaceAll(" + ", " plus ");
  const used = text.split(" ");
  const count = text.match(negations)?.length ?? 0;
  return readings.find(
    (each) =>
      (each.means !== "released" || /\b(?:all|every|each|everything)\b/.test(text)) &&
      each.negations === count &&
      each.says.test(text) &&
      used.every((word) => plain.has(word) || each.words.has(word)),
  )?.means;
}

function normalised(sentence: string): string {
  return sentence
    .toLowerCase()
    .replace(/<=|≤/g, " le ")
    .replace(/==?/g, " = ")
    .replaceAll("+", " + ")
    .replace(/n't\b/g, " not")
    .replace(/[-_.\s]+(?=[a-z])|[,;:()]/g, " ")
    .replace(/[.!]+$/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

const terms: Readonly<Record<"free" | "cached" | "held" | "all", RegExp>> = {
  free: /^(?:free|available|unused)$/,
  cached: /^(?:cached|stored|trie|radix trie|tree|in trie|in the trie|evictable|idle)$/,
  held: /^(?:held|used|allocated|in use|active|private|live)$/,
  all: /^(?:all|total|num|everything|n|capacity|every|usable|total usable)?$/,
};

/** "free + cached + held = all blocks", in any order. What is cached may be counted among the free or the held. */
function isConservation(text: string): boolean {
  const sides = text
    .replace(/^(?:the )?sum of /, "")
    .replace(/ equals? /g, " = ")
    .split(" = ");
  if (sides.length !== 2) return false;
  const [a, b] = sides.map((side) => side.split(/ ?\+ ?| plus /).map(termOf));
  const [sum, total] = a.length > b.length ? [a, b] : [b, a];
  const distinct = new Set(sum);
  if (total.length !== 1 || total[0] !== "all" || distinct.size !== sum.length) return false;
  return distinct.has("free") && distinct.has("held") && !distinct.has("all") && !distinct.has(undefined);
}

function termOf(said: string): keyof typeof terms | undefined {
  const isCount = /\bblocks?\b|^(?:free|available|cached|stored|held|used|allocated|total|all|everything|num|in use)$/;
  if (!isCount.test(said)) return undefined;
  const core = said
    .replace(/\b(?:blocks?|count|number of|list|the|len|size)\b/g, " ")
    .replace(/\s+/g, " ")
    .trim();
  return (Object.keys(terms) as (keyof typeof terms)[]).find((term) => terms[term].test(core));
}

function words(list: string): ReadonlySet<string> {
  return new Set(list.split(/\s+/));
}
