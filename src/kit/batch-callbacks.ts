/**
 * Runs what thousands of callers want to do at the end of one turn of the event loop in one go: no continuation of a promise that
 * one of them settles runs before the last of them has run. Takes functions that do not throw; runs each exactly once, in order.
 */
export function allAtOnce(endOfTurn: (run: () => void) => void): (run: () => void) => void {
  let waiting: (() => void)[] = [];
  const runAll = () => {
    const all = waiting;
    waiting = [];
    for (const run of all) run();
  };
  return (run) => {
    if (waiting.push(run) === 1) endOfTurn(runAll);
  };
}
