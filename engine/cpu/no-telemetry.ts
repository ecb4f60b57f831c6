/**
 * Disables ONNX Runtime's telemetry, unless the user has set the variable. Otherwise the runtime sends usage data to its vendor,
 * stores a machine id in the user's cache folder and writes a log of each run to the temporary folder. The variable must be set
 * before the first session, and by the main thread, because worker threads have a copy of the environment.
 */
process.env["ORT_DISABLE_TELEMETRY"] ??= "1";
