const folder = new URL('../../build/lab/', import.meta.url)

/** A module of the lab as it was compiled: contenders are processes of their own, and start from build/. */
export async function build<Module>(file: string): Promise<Module> {
  return (await import(new URL(file, folder).href)) as Module
}
