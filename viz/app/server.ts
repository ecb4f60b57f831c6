import type {
  BrokenRun,
  DifferenceData,
  Job,
  LiveList,
  LiveRow,
  LogData,
  MomentData,
  PairData,
  PrefixData,
  RequestsData,
  RunDetail,
  RunList,
  RunRow,
  SeriesData,
} from "../api.ts";

/** Answers of the server, by the paths of `viz/api.ts`. */
export async function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  const response = await fetch(path, signal ? { signal } : {});
  if (!response.ok) throw new Error(await problemOf(response));
  return (await response.json()) as Answer;
}

/** What a refused request was told, in a line. */
export async function problemOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error, problem } = JSON.parse(text);
    return String(error ?? problem ?? text);
  } catch {
    return text || `the server answered ${response.status}`;
  }
}

const runPath = (id: string) => `api/runs/${encodeURIComponent(id)}`;

export const getRun = (id: string, signal?: AbortSignal) => get<RunDetail>(runPath(id), signal);
export const getRequests = (id: string, signal?: AbortSignal) => get<RequestsData>(`${runPath(id)}/requests`, signal);

export function getSeries(
  id: string,
  bins: number,
  range: readonly [number, number] | undefined,
  signal?: AbortSignal,
): Promise<SeriesData> {
  return get(`${runPath(id)}/series?${seriesQuery(bins, range)}`, signal);
}

/** The newest moment of a program under way. */
export const getLiveMoment = (id: string, signal?: AbortSignal) =>
  get<MomentData>(`${livePath(id)}/moment?event=${Number.MAX_SAFE_INTEGER}`, signal);

const seriesQuery = (bins: number, range: readonly [number, number] | undefined) =>
  `bins=${bins}${range ? `&fromNs=${Math.round(range[0])}&toNs=${Math.round(range[1])}` : ""}`;

const livePath = (id: string) => `api/live/${encodeURIComponent(id)}`;

/** The same of a program under way. */
export const getLiveSeries = (
  id: string,
  bins: number,
  range: readonly [number, number] | undefined,
  signal?: AbortSignal,
) => get<SeriesData>(`${livePath(id)}/series?${seriesQuery(bins, range)}`, signal);

export function getPairs(a: string, b: string, metric: string, signal?: AbortSignal): Promise<PairData> {
  const query = new URLSearchParams({ a, b, metric, points: "2000" });
  return get(`api/pairs?${query}`, signal);
}

export const getLog = (id: string, signal?: AbortSignal) => get<LogData>(`${runPath(id)}/log`, signal);
export const getPrefixes = (id: string, signal?: AbortSignal) => get<PrefixData>(`${runPath(id)}/prefixes`, signal);

/** `query`: as `viz/api.ts` names it. */
export function getMoment(
  id: string,
  query: Readonly<Record<string, string | number>>,
  signal?: AbortSignal,
): Promise<MomentData> {
  const params = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  return get(`${runPath(id)}/moment?${params}`, signal);
}

export const getDifference = (a: string, b: string, signal?: AbortSignal) =>
  get<DifferenceData>(`api/difference?${new URLSearchParams({ a, b })}`, signal);

export const isBroken = (row: object): row is BrokenRun => "problem" in row;

/** The list of runs, the jobs and what is under way, kept up to date by the server. */
export class Live {
  runs: readonly (RunRow | BrokenRun)[] = [];
  jobs: readonly Job[] = [];
  underWay: readonly (LiveRow | BrokenRun)[] = [];
  /** The server answers. */
  isConnected = true;
  readonly #listeners = new Set<() => void>();
  /** Called several times a second while something is under way. */
  readonly #ofUnderWay = new Set<() => void>();
  #events: EventSource | undefined;
  /** How many lists of runs were asked for, and which of them is `runs`. */
  #asked = 0;
  #listed = 0;

  /** A page that nobody sees is told nothing. */
  async start(): Promise<void> {
    this.underWay = (await get<LiveList>("api/live")).live;
    this.jobs = await get<Job[]>("api/jobs");
    await this.refresh();
    this.#listen();
    document.addEventListener("visibilitychange", () => this.#listen());
  }

  #listen(): void {
    if (document.hidden) {
      this.#events?.close();
      this.#events = undefined;
      return;
    }
    this.#events ??= this.#open();
  }

  #open(): EventSource {
    const events = new EventSource("api/events");
    events.addEventListener("runs", () => void this.refresh());
    events.addEventListener("jobs", ({ data }) => {
      this.jobs = JSON.parse(data);
      this.#tell();
    });
    events.addEventListener("live", ({ data }) => {
      this.underWay = JSON.parse(data);
      for (const listener of this.#ofUnderWay) listener();
    });
    const connected = (isConnected: boolean) => () => {
      if (this.isConnected === isConnected) return;
      this.isConnected = isConnected;
      for (const listener of this.#ofUnderWay) listener();
    };
    events.addEventListener("open", connected(true));
    events.addEventListener("error", connected(false));
    return events;
  }

  /** The whole runs among them. */
  get rows(): readonly RunRow[] {
    return this.runs.filter((row): row is RunRow => !isBroken(row));
  }

  /** Calls back at every change, until the view is left. */
  watch(listener: () => void, left: AbortSignal): void {
    this.#listeners.add(listener);
    left.addEventListener("abort", () => this.#listeners.delete(listener));
  }

  /** The same of what is under way. */
  watchUnderWay(listener: () => void, left: AbortSignal): void {
    this.#ofUnderWay.add(listener);
    left.addEventListener("abort", () => this.#ofUnderWay.delete(listener));
  }

  /** Asks for the list now. An answer that comes after that to a later question is dropped. */
  async refresh(): Promise<void> {
    const asked = ++this.#asked;
    const { runs } = await get<RunList>("api/runs");
    if (asked < this.#listed) return;
    this.#listed = asked;
    this.runs = runs;
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
