// `npm run -s cuda:emulator`: prints the path of the emulated driver, for KVLAB_CUDA_DRIVER. It is built if the sources have changed.
import { emulatorLibrary } from "./build.ts";

try {
  process.stdout.write(`${await emulatorLibrary()}\n`);
} catch (error) {
  process.stderr.write(`cuda:emulator: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
