import type { Condition } from './places.ts';
export const openCitus = (): readonly Condition[] => [];
