import type { Law } from "./law.ts";

// Laws that are checked while requests overlap (overlapping.ts). The other laws are in separate files.

export const victimIsEvictable: Law = {
  name: "victim-is-evictable",
  statement: "victim() returns an evictable entry: one that was added and has not been removed since",
};

export const alwaysVictim: Law = {
  name: "always-a-victim",
  statement: "victim() returns an entry whenever one is evictable",
};

export const victimIsPure: Law = {
  name: "victim-is-pure",
  statement: "victim() has no side effects",
};

export const admitsInRange: Law = {
  name: "admits-in-range",
  statement: "admits(request, from, to) returns a block from `from` to `to`",
};

export const refusedNotStored: Law = {
  name: "refused-not-stored",
  statement: "a block that admits() refuses is not stored, nor is a later one of the same admission",
};

export const firstToExpire: Law = {
  name: "first-to-expire",
  statement: "nextToExpire() returns an evictable entry with the smallest expiresAt(), and has no side effects",
};

export const expiredNotStored: Law = {
  name: "expired-not-stored",
  statement: "when a step is planned, no evictable entry is stored whose time has come",
};

export const requestsView: Law = {
  name: "requests-view",
  statement: "context.requests has the requests that wait, without the one that is being admitted, and those that run",
};

export const signalsInOrder: Law = {
  name: "signals-in-order",
  statement:
    "signals come in the order of time, with the state of their session; a session's requests are admitted only while it runs",
};

export const callsReturn: Law = {
  name: "calls-return",
  statement: "every call returns and none throws",
};

export const conservation: Law = {
  name: "conservation",
  statement: "every block is either free, private or cached, and no block is in two of these states",
};

export const longestMatch: Law = {
  name: "longest-match",
  statement: "a request matches the longest prefix that the rules allow, and attends to its own tokens only",
};

export const addRemoveAlternate: Law = {
  name: "add-remove-alternate",
  statement: "add() and remove() of an entry alternate, and the added entries are the evictable ones",
};

export const failedAdmission: Law = {
  name: "failed-admission",
  statement:
    "a failed admission has no side effects except the evictions that the rules demand, however often it is retried",
};
