import { ExecutorError } from "../executor.ts";
import { openLibrary } from "./library.ts";
import { openToolkitLibrary } from "./toolkit.ts";

/** The functions of NVRTC, which compiles CUDA sources at run time. */
export const nvrtcPrototypes = {
  nvrtcVersion: "int nvrtcVersion(void *major, void *minor)",
  nvrtcCreateProgram:
    "int nvrtcCreateProgram(void *program, const char *source, const char *name, int headers, void *headerSources, void *headerNames)",
  nvrtcDestroyProgram: "int nvrtcDestroyProgram(void *program)",
  nvrtcCompileProgram: "int nvrtcCompileProgram(uint64_t program, int options, const char **texts)",
  nvrtcGetProgramLogSize: "int nvrtcGetProgramLogSize(uint64_t program, void *bytes)",
  nvrtcGetProgramLog: "int nvrtcGetProgramLog(uint64_t program, void *log)",
  nvrtcGetCUBINSize: "int nvrtcGetCUBINSize(uint64_t program, void *bytes)",
  nvrtcGetCUBIN: "int nvrtcGetCUBIN(uint64_t program, void *image)",
} as const;

/** Path of the NVRTC library; "none" disables it. */
const nvrtcVariable = "KVLAB_NVRTC";

/**
 * Compiles a source for an architecture such as `sm_90a`.
 *
 * @param macros definitions as NAME=VALUE
 * @returns the machine code; undefined if NVRTC is not installed
 * @throws ExecutorError with the first error of the compiler
 */
export function compile(source: string, architecture: string, macros: readonly string[]): Uint8Array | undefined {
  const path = process.env[nvrtcVariable];
  if (path === "none") return undefined;
  const library = path ? openLibrary([path]) : openToolkitLibrary("nvrtc", ["nvrtc-builtins"]);
  if (!library) return undefined;
  const nvrtc = library.declare(nvrtcPrototypes);
  const program = new BigUint64Array(1);
  const size = new BigUint64Array(1);
  checkResult(nvrtc.nvrtcCreateProgram(program, source, "kernels.cu", 0, null, null), "nvrtcCreateProgram");
  try {
    const defined = macros.map((macro) => `--define-macro=${macro}`);
    const options = [`--gpu-architecture=${architecture}`, "-default-device", "--std=c++17", ...defined];
    const result = nvrtc.nvrtcCompileProgram(program[0], options.length, options);
    if (result !== 0) {
      checkResult(nvrtc.nvrtcGetProgramLogSize(program[0], size), "nvrtcGetProgramLogSize");
      const log = Buffer.alloc(Number(size[0]));
      checkResult(nvrtc.nvrtcGetProgramLog(program[0], log), "nvrtcGetProgramLog");
      const [line = `result ${result}`] = /^.*error.*$/m.exec(log.toString()) ?? [];
      throw new ExecutorError(`the CUDA kernels do not compile for ${architecture}: ${line.trim()}`);
    }
    checkResult(nvrtc.nvrtcGetCUBINSize(program[0], size), "nvrtcGetCUBINSize");
    const image = new Uint8Array(Number(size[0]));
    checkResult(nvrtc.nvrtcGetCUBIN(program[0], image), "nvrtcGetCUBIN");
    return image;
  } finally {
    nvrtc.nvrtcDestroyProgram(program);
  }
}

function checkResult(result: number, call: string): void {
  if (result !== 0) throw new ExecutorError(`${call} failed: NVRTC result ${result}`);
}
