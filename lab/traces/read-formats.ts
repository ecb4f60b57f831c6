import type { TraceFormat } from "../../traces/format.ts";
import { kindNames, traceFormats } from "../../traces/open.ts";

/** A trace format that is read. */
export interface ReadFormat extends Pick<TraceFormat, "name" | "about" | "source" | "options"> {
  /** Kinds of files, such as JSON Lines. */
  readonly files: readonly string[];
  /** Fields or columns that a file needs; alternatives with "or". */
  readonly needs: readonly string[];
}

/** All trace formats that are recognised. */
export const readFormats = (): ReadFormat[] =>
  traceFormats.map(({ name, about, source, options, shape }) => ({
    ...{ name, about, source, options },
    files: shape.kinds.map((kind) => kindNames[kind]),
    needs: shape.needs.map((need) => (typeof need === "string" ? need : need.join(" or "))),
  }));
