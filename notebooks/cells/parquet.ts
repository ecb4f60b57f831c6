import { parquetReadObjects } from "hyparquet";

/** The rows of a Parquet file that kvlab wrote. Whole numbers of 64 bits are BigInts. */
export const parquetRows = (file: ArrayBuffer): Promise<Record<string, unknown>[]> => parquetReadObjects({ file });
