/**
 * ONNX Runtime sends its makers what it runs, keeps a number for this machine in the user's cache folder and leaves a log of each
 * run in the temporary folder, unless this is set before its first session. A thread cannot set it for the process: the program
 * that starts the thread does. Whoever wants it sets it to 0.
 */
process.env["ORT_DISABLE_TELEMETRY"] ??= "1";
