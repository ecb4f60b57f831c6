/*
 * Every trial of a `property` case checks all of these invariants: free, cached and referenced blocks are all blocks; only
 * blocks of a shared prefix are referenced by two requests; a hit block was written for the same tokens; a prefix is no
 * longer than its prompt, and consists of whole blocks; a request has the blocks that its tokens need; a finished request
 * references none; a reference count is the number of references; a reserved block is never allocated.
 *
 * A case states an invariant in words or as a formula. A sentence is known if it has a word for one of these subjects, and no
 * word outside the lists below.
 */

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/));

/** Words for the subjects of the invariants. */
const topics =
  words(`free freed allocated cached held used leak leaks leaked lost conserved conservation accounted owner
  owners twice two share shared shares sharing disjoint unique distinct duplicate duplicates duplicated double overlap
  overlaps overlapping prefix hit hits ref refs reference references count counts counted reserved released returned slots`);

const otherWords =
  words(`a an the of in on at to by for with from and or as is are be been has have had it its their that this
  these those which who every each all any after before when once while during always still never no not none nor
  without cannot must can may ever only exactly either also again more than one another other both same different
  live active running concurrent simultaneously time times everything nothing end
  block blocks slot id ids list pool size num len number total sum plus equal equals add adds up constant capacity
  state states allocation allocations allocator request requests req reqs sequence sequences cache trie radix tree step
  iteration iterations operation operations invariant holder holders owned own belong belongs handed out given assigned
  use evictable idle private stored negative multiple positive least most exceed exceeds longer length prompt prompts token
  tokens text content contents hold holds contain contains match matches matched matching written asked computed common
  beyond non except zero null first remove removed removing missing gone disappear disappears most`);

/** Whether every trial checks the sentence. */
export function isKnownInvariant(sentence: string): boolean {
  const found = sentence.toLowerCase().match(/[a-z]+/g) ?? [];
  return found.some((word) => topics.has(word)) && found.every((word) => topics.has(word) || otherWords.has(word));
}
