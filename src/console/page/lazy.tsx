/** Screens that are loaded when they are first opened, so that the first load of the page stays small. */
import type { FunctionComponent, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Skeleton, Wrong } from './components.tsx';
import { Failure } from './server.ts';

/** How long until a file that could not be loaded is asked for again. */
const againMs = 2_000;

export function lazy<P extends object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let loaded: FunctionComponent<P> | null = null;
  return function Lazy(props: P): JSX.Element {
    const [Screen, setScreen] = useState<{ it: FunctionComponent<P> } | null>(
      loaded === null ? null : { it: loaded },
    );
    const [turn, setTurn] = useState(0);
    useEffect(() => {
      if (loaded !== null) {
        // Another one has loaded it since this one was drawn, as when a login draws the page anew meanwhile.
        setScreen({ it: loaded });
        return undefined;
      }
      let timer: ReturnType<typeof setTimeout> | undefined;
      load().then(
        (it) => {
          loaded = it;
          setScreen({ it });
        },
        () => (timer = setTimeout(() => setTurn(turn + 1), againMs)),
      );
      return () => clearTimeout(timer);
    }, [turn]);
    if (Screen !== null) return <Screen.it {...props} />;
    if (turn === 0) return <Skeleton />;
    return (
      <Wrong failure={new Failure({ error: 'This page cannot be loaded now; trying again', code: 'away' })} />
    );
  };
}
