// A program in TypeScript that uses the client as it is published. It is only checked, never run.

import { Attempt, Failed, Job, Permanent, Queue, Rejected, Release, Worker, hostInWebWorker } from "leaseway";
import type { View } from "leaseway/protocol.js";

const queue: Queue = new Queue("wss://task.example/resize", { getToken: async () => ({ ticket: "one" }) });
const fixed = new Queue(new URL("https://task.example/resize"), { token: "t", random: () => 0.5 });

export async function produce(signal: AbortSignal): Promise<unknown> {
  await queue.connected({ timeoutMs: 1_000 });
  const job: Job = await queue.post({ width: 64 }, { key: "k", priority: 1, delayMs: 5, meta: { a: 1 }, signal });
  for await (const view of job) use(view);
  for await (const view of queue.watch("mine", { signal })) use(view);
  for await (const view of fixed.watch([job.id])) use(view);
  for await (const { counts, workers } of queue.stats()) console.log(counts["pending"], workers);
  const cancelled: boolean = await job.cancel();
  const text: string = (await queue.ask("GET", "items", { query: { status: ["dead", "failed"] } })).next;
  queue.addEventListener("view", console.log);
  try {
    return await job.result;
  } catch (error) {
    if (error instanceof Failed) console.log(error.error?.message, error.id);
    if (error instanceof Rejected) console.log(error.code, error.errors[0]?.path);
    return [cancelled, text];
  }
}

const analyse = hostInWebWorker("./analyse.js", { hangMs: 1_000 });

export const worker = new Worker("ws://127.0.0.1:8787/resize", {
  concurrency: 2,
  criteria: { format: ["png"] },
  handler: async (item, job: Attempt) => {
    await job.progress({ percent: 5 });
    if (job.attempts > 3) throw new Permanent("too often", { code: "often", detail: job.checkpoint });
    if (job.signal.aborted) throw new Release(1_000);
    return analyse({ pixels: new ArrayBuffer(8), item }, job);
  },
});

export async function stop(): Promise<void> {
  await worker.stop({ graceMs: 5 });
  analyse.close();
}

function use(view: View): void {
  console.log(view.status, view.rev + 1, view.finishedAt ?? 0);
}

// @ts-expect-error  a worker needs a handler
new Worker("ws://127.0.0.1:8787/resize", {});
// @ts-expect-error  a duration is a number, and its name says its unit
queue.post(1, { delay: 5 });
// @ts-expect-error  there is no such feed
queue.watch(7);
