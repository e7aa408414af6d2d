/** Waits for both, even if one fails, so that what was opened can be closed; throws the failure of `one`, or else that of `other`. */
export async function together<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([one, other]);
  return Promise.all([one, other]);
}
