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
  ReplicasData,
  ReportRequest,
  RequestHistory,
  RequestsData,
  RunDetail,
  RunList,
  RunNotesChange,
  RunRow,
  SeriesData,
  SessionsData,
} from "../../api.ts";

/** The response of the server to GET `path`, one of those in `viz/api.ts`. @throws Error with the server's message. */
export async function get<Body>(path: string, signal?: AbortSignal): Promise<Body> {
  const response = await request(path, signal ? { signal } : {});
  if (!response.ok) throw new Error(await errorText(response));
  return (await response.json()) as Body;
}

/** Sends a request to the server. @throws Error if there is no response */
export async function request(path: string, options: RequestInit): Promise<Response> {
  try {
    return await fetch(path, options);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Error(noServer);
  }
}

const noServer = "The server does not respond. If kvlab dashboard has ended, start it again.";

/** The server's message of a response that is not ok, one line. */
export async function errorText(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error, problem } = JSON.parse(text);
    return String(error ?? problem ?? text);
  } catch {
    return text || `HTTP status ${response.status}`;
  }
}

const runPath = (id: string) => `api/runs/${encodeURIComponent(id)}`;

export const getRun = (id: string, signal?: AbortSignal) => get<RunDetail>(runPath(id), signal);
export const getReplicas = (id: string, signal?: AbortSignal) => get<ReplicasData>(`${runPath(id)}/replicas`, signal);
export const getSessions = (id: string, signal?: AbortSignal) =>
  get<SessionsData>(`${runPath(id)}/sessions?most=20`, signal);
export const getHistory = (id: string, request: number, signal?: AbortSignal) =>
  get<RequestHistory>(`${runPath(id)}/history?request=${request}`, signal);
export const getRequests = (id: string, signal?: AbortSignal) => get<RequestsData>(`${runPath(id)}/requests`, signal);

/** Changes the given fields of what is noted about a run. @throws Error with the server's message */
export async function changeNotes(id: string, change: RunNotesChange): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await request(runPath(id), { method: "PATCH", headers, body: JSON.stringify(change) });
  if (!response.ok) throw new Error(await errorText(response));
}

/** Deletes the folder of a run. @throws Error with the server's message */
export async function deleteRun(id: string): Promise<void> {
  const response = await request(runPath(id), { method: "DELETE" });
  if (!response.ok) throw new Error(await errorText(response));
}

/** The comparison of runs as an HTML document. @throws Error with the server's message */
export async function getReport(body: ReportRequest): Promise<string> {
  const headers = { "content-type": "application/json" };
  const response = await request("api/report", { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await errorText(response));
  return await response.text();
}

export function getSeries(
  id: string,
  bins: number,
  range: readonly [number, number] | undefined,
  signal?: AbortSignal,
): Promise<SeriesData> {
  return get(`${runPath(id)}/series?${seriesQuery(bins, range)}`, signal);
}

/** The cache state of an active run at its newest event. */
export const getLiveMoment = (id: string, signal?: AbortSignal) =>
  get<MomentData>(`${livePath(id)}/moment?event=${Number.MAX_SAFE_INTEGER}`, signal);

const seriesQuery = (bins: number, range: readonly [number, number] | undefined) =>
  `bins=${bins}${range ? `&fromNs=${Math.round(range[0])}&toNs=${Math.round(range[1])}` : ""}`;

const livePath = (id: string) => `api/live/${encodeURIComponent(id)}`;

/** The time series of an active run so far. */
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

/** The cache state at an event; `query` has the parameters that `viz/api.ts` documents. */
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

/** Differs if a run was replaced or its notes were changed. */
export const versionOf = ({ id, savedAtMs, notes }: RunRow): string =>
  `${id} ${savedAtMs}${notes ? JSON.stringify(notes) : ""}`;

/** The runs with their settings by name. Runs with equal settings share one object. */
function withSettings({ runs, settings: all }: RunList): (RunRow | BrokenRun)[] {
  const known = new Map<string, RunRow["settings"]>();
  return runs.map((row) => {
    if (isBroken(row)) return row;
    const key = row.settings.join();
    const settings = known.get(key) ?? Object.fromEntries(row.settings.map((number) => all[number]));
    known.set(key, settings);
    return { ...row, settings };
  });
}

/** The saved runs, the jobs and the active runs, kept up to date by server-sent events. */
export class ServerState {
  runs: readonly (RunRow | BrokenRun)[] = [];
  folder: RunList["folder"] = { path: "", exists: true };
  jobs: readonly Job[] = [];
  activeRuns: readonly (LiveRow | BrokenRun)[] = [];
  /** Whether the event stream is open. */
  isConnected = true;
  readonly #listeners = new Set<() => void>();
  /** Called several times a second while a run is active. */
  readonly #activeRunListeners = new Set<() => void>();
  #events: EventSource | undefined;
  /** Lists of runs are numbered in the order of their requests; `runs` is the list with the second number. */
  #requestedLists = 0;
  #shownList = 0;

  /** Loads everything and subscribes to changes. A hidden page is not subscribed. */
  async start(): Promise<void> {
    const [live, jobs] = await Promise.all([get<LiveList>("api/live"), get<Job[]>("api/jobs"), this.refresh()]);
    this.activeRuns = live.live;
    this.jobs = jobs;
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
    // If the server ends meanwhile, the event stream reports that.
    events.addEventListener("runs", () => void this.refresh().catch(() => {}));
    events.addEventListener("jobs", ({ data }) => {
      this.jobs = JSON.parse(data);
      this.#notify();
    });
    events.addEventListener("live", ({ data }) => {
      this.activeRuns = JSON.parse(data);
      for (const listener of this.#activeRunListeners) listener();
    });
    const connected = (isConnected: boolean) => () => {
      if (this.isConnected === isConnected) return;
      this.isConnected = isConnected;
      for (const listener of this.#activeRunListeners) listener();
    };
    events.addEventListener("open", connected(true));
    events.addEventListener("error", connected(false));
    return events;
  }

  /** The runs without the broken ones. */
  get rows(): readonly RunRow[] {
    return this.runs.filter((row): row is RunRow => !isBroken(row));
  }

  /** The runs without the broken and the hidden ones. */
  get shownRows(): readonly RunRow[] {
    return this.rows.filter(({ notes }) => !notes?.hidden);
  }

  /** Calls `listener` when runs or jobs change, until `signal` is aborted. */
  watch(listener: () => void, signal: AbortSignal): void {
    this.#listeners.add(listener);
    signal.addEventListener("abort", () => this.#listeners.delete(listener));
  }

  /** Calls `listener` when active runs or the connection change, until `signal` is aborted. */
  watchActiveRuns(listener: () => void, signal: AbortSignal): void {
    this.#activeRunListeners.add(listener);
    signal.addEventListener("abort", () => this.#activeRunListeners.delete(listener));
  }

  /** Fetches the list of runs. A response that arrives after that of a later request is discarded. */
  async refresh(): Promise<void> {
    const number = ++this.#requestedLists;
    const list = await get<RunList>("api/runs");
    if (number < this.#shownList) return;
    this.#shownList = number;
    this.folder = list.folder;
    this.runs = withSettings(list);
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
