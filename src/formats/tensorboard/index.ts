// Public surface of TensorBoard's event files: bytes out, anywhere.

export {
  type EventPlace,
  encodeFileHead,
  encodeHistogram,
  encodeRestart,
  encodeScalars,
  encodeText,
} from "./events.js";
