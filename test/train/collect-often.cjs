// Preloaded into every thread of a process that runs with --expose-gc: what is garbage goes soon, also in threads
// that the measuring one cannot ask.
setInterval(globalThis.gc, 100).unref();
