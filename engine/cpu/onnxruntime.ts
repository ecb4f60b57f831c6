// The one import of ONNX Runtime: the packed program has its CPU files in the package (scripts/bundle-onnxruntime.ts).
export { env, InferenceSession, listSupportedBackends, Tensor } from "onnxruntime-node";
