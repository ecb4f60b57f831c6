// The only import of ONNX Runtime: the package contains its files for this backend (scripts/bundle-onnxruntime.ts).
export { env, InferenceSession, listSupportedBackends, Tensor } from "onnxruntime-node";
