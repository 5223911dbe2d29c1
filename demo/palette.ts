/** One colour a worker: told apart by people who see colours differently, too (after Okabe and Ito). */
export const WORKER_COLOURS: readonly string[] = [
  '#0072B2',
  '#E69F00',
  '#009E73',
  '#CC79A7',
  '#56B4E9',
  '#B8860B',
  '#6A51A3',
  '#44AA99',
]

export const CLASH_COLOUR = '#D62F2F'
