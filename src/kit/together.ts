/** Waits for both, whatever becomes of the other, so that what was opened can be closed; throws what failed first. */
export async function together<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([one, other]);
  return Promise.all([one, other]);
}
