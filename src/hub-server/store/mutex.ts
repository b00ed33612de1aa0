// One at a time, in the order of asking, within this process. The server's lock on its folder keeps other
// processes out.

export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
