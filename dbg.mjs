import { connect } from './dist/connect.js'
const keep=setInterval(()=>{},1000)
const a = await connect('etcd://127.0.0.1:23790'), b = await connect('etcd://127.0.0.1:23790')
const name='dbg'+Math.random()
const t0=performance.now(); const log=(...x)=>console.log((performance.now()-t0).toFixed(0),...x)
const held = await a.lock(name).acquire(); log('held')
const c = new AbortController(); const sent=b.lock(name).acquire({signal:c.signal}); c.abort(new Error('enough')); await sent.catch(e=>log(e.message))
const w = b.lock(name).acquire(); w.then(()=>log('granted?!'),e=>log(e))
for (let i=0;i<15;i++){ await new Promise(r=>setTimeout(r,200)); const v=await a.view(name); log(JSON.stringify(v[0]?.tickets.map(t=>[t.id.slice(0,4),t.fence??t.order, t.remainingMs]),(k,v)=>typeof v==='bigint'?String(v):v)) }
process.exit()
