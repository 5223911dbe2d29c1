/** The answers of a ZooKeeper server, and of this client, that are not yes. */
const CODES: Record<number, string> = {
  [-1]: 'SystemError',
  [-2]: 'RuntimeInconsistency',
  [-4]: 'ConnectionLoss',
  [-5]: 'MarshallingError',
  [-6]: 'Unimplemented',
  [-7]: 'OperationTimeout',
  [-8]: 'BadArguments',
  [-101]: 'NoNode',
  [-102]: 'NoAuth',
  [-103]: 'BadVersion',
  [-108]: 'NoChildrenForEphemerals',
  [-110]: 'NodeExists',
  [-111]: 'NotEmpty',
  [-112]: 'SessionExpired',
  [-114]: 'InvalidAcl',
  [-115]: 'AuthFailed',
  [-118]: 'SessionMoved',
  [-119]: 'NotReadOnly',
  [-122]: 'RequestTimeout',
  [-125]: 'QuotaExceeded',
  [-127]: 'Throttled',
}

export const CODE = {
  connectionLoss: -4,
  unimplemented: -6,
  noNode: -101,
  noAuth: -102,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  sessionMoved: -118,
} as const

/** A request that did not end in yes. After `ConnectionLoss` it may have been done or not; nobody knows. */
export class ZooKeeperError extends Error {
  readonly code: number
  /** False: the request never left this process, so it was surely not done. */
  readonly sent: boolean

  constructor(code: number, what: string, options: ErrorOptions & { readonly sent?: boolean } = {}) {
    super(`${CODES[code] ?? `error ${code}`}: ${what}`, options)
    this.name = 'ZooKeeperError'
    this.code = code
    this.sent = options.sent ?? true
  }
}
