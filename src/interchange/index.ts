// Public surface of conversion between model forms: `speedtronic/interchange`. Node only.

export * from "./huggingface/index.js";
export * from "./python-speedtronic/index.js";
