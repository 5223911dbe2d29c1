/** The import direction: cli → core ← backends. Run over dist/, which mirrors src/. */
module.exports = {
  forbidden: [
    {
      name: 'core-knows-no-backend',
      severity: 'error',
      from: { path: '^dist/core' },
      to: { path: '^dist/(backends|cli|conformance|connect|demo)' },
    },
    {
      name: 'backends-know-no-other',
      comment: 'quorum is a backend made of backends, but takes them; it imports none either',
      severity: 'error',
      from: { path: '^dist/backends/([^/]+)/' },
      to: { path: '^dist/backends/', pathNot: '^dist/backends/$1/' },
    },
    {
      name: 'backends-know-only-core',
      severity: 'error',
      from: { path: '^dist/backends' },
      to: { path: '^dist/(cli|conformance|connect|demo|index)' },
    },
    { name: 'cli-speaks-to-core', severity: 'error', from: { path: '^dist/cli' }, to: { path: '^dist/backends' } },
    {
      name: 'no-circles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
  ],
  options: { doNotFollow: { path: 'node_modules' } },
}
