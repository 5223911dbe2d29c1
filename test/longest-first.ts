import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take minutes: one of them begun last would run alone at the end. */
const LONG = ['test/lab/folklore.test.ts', 'test/lab/holdfast.test.ts', 'quorum.test.ts']

/** Long files first, for a machine that has not run them before and so does not know. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = LONG.findIndex((name) => moduleId.endsWith(name))
      return place === -1 ? LONG.length : place
    }
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}
