const keep=setInterval(()=>{},1000)
import { Connection } from '/tmp/etcd-dist/backends/etcd/connection.js'
import * as m from '/tmp/etcd-dist/backends/etcd/messages.js'
import { Etcd3 } from 'etcd3'
const c = await Connection.open({host:'127.0.0.1',port:23790}, 1000)
const txn = (t) => c.call('/etcdserverpb.KV/Txn', m.txnRequest(t), m.readTxn, {timeoutMs:5000})
const grant = (t) => c.call('/etcdserverpb.Lease/LeaseGrant', m.leaseGrantRequest(t), m.readLease, {timeoutMs:5000})
const ka = (id) => c.call('/etcdserverpb.Lease/LeaseKeepAlive', m.leaseRequest(id), m.readLease, {timeoutMs:5000})
const l = await grant(1); console.log('grant 1', l); console.log('ka', await ka(l.id))
const l2 = await grant(60)
const show = (x)=>JSON.stringify(x,(k,v)=>typeof v==='bigint'?String(v):v)
const join=(name,id)=>({op:'txn',compare:[{key:name+'/',rangeEnd:name+'0',target:'create',is:'=',value:0n},{key:'t/'+id,target:'version',is:'=',value:0n}],
 success:[{op:'put',key:name+'/'+id,value:'v',lease:l2.id}],
 failure:[{op:'txn',compare:[{key:name+'/'+id,target:'version',is:'=',value:0n}],success:[{op:'put',key:name+'/'+id,value:'w',lease:l.id},{op:'range',key:name+'/',rangeEnd:name+'0',sort:'newest',limit:2,keysOnly:true}],failure:[{op:'range',key:name+'/'+id}]}]})
console.log(show(await txn({compare:[],success:[join('a','1'),join('b','1')],failure:[]})))
console.log(show(await txn({compare:[],success:[join('a','2'),join('b','1')],failure:[]})))
console.log('ro', show(await txn({compare:[],success:[{op:'range',key:'a/',rangeEnd:'a0',keysOnly:true,sort:'oldest',maxCreate:99n}],failure:[]})))
try { await txn({compare:[],success:[{op:'put',key:'zz',value:'',lease:12345n}],failure:[]}) } catch (e) { console.log(e.status, e.message) }
try { console.log('ka unknown', await ka(999n)) } catch (e) { console.log(e.status, e.message) }
await txn({compare:[],success:[{op:'delete',key:'a/1'},{op:'delete',key:'a/2'},{op:'delete',key:'b/1'}],failure:[]})
// measure
async function run(label, n, conc, fn){ const t=performance.now(); const cpu=process.cpuUsage(); let i=0; await Promise.all(Array.from({length:conc},async()=>{while(i<n){i++;await fn(i)}})); const ms=performance.now()-t; const u=process.cpuUsage(cpu); console.log(label, 'conc',conc, (n/ms*1000).toFixed(0)+'/s', 'cpu µs/call', ((u.user+u.system)/n).toFixed(0)) }
const e3 = new Etcd3({hosts:'127.0.0.1:23790'})
const range={op:'range',key:'q'}
const ours=()=>c.call('/etcdserverpb.KV/Range', m.rangeRequest(range), m.readRange,{timeoutMs:5000})
const theirs=()=>e3.kv.range({key:Buffer.from('q')})
for (const conc of [1,64]) { for (let k=0;k<2;k++){ await run('http2 range', 3000, conc, ours); await run('etcd3 range', 3000, conc, theirs)} }
const N=32
let cnt=0
const pairs=async()=>{ const names=Array.from({length:N},()=>'n'+(cnt++)); await txn({compare:[],success:names.map(n=>join(n,'1')),failure:[]}); await txn({compare:[],success:names.map(n=>({op:'txn',compare:[{key:n+'/1',target:'version',is:'>',value:0n}],success:[{op:'delete',key:n+'/1'}],failure:[]})),failure:[]}) }
await run('join+leave one', 600, 1, async()=>{const n='m'+(cnt++); await txn(join(n,'1')); await txn({compare:[],success:[{op:'delete',key:n+'/1'}],failure:[]})})
await run('nested 32 x2', 300, 2, pairs)
e3.close(); c.close()
clearInterval(keep)
