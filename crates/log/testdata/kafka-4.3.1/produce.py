from confluent_kafka import Producer, KafkaError
from confluent_kafka.admin import AdminClient, NewTopic
import time
B='127.0.0.1:23192'
a=AdminClient({'bootstrap.servers':B})
for n,f in a.create_topics([NewTopic('golden',1,1,config={'index.interval.bytes':'300','segment.bytes':'1048576'})]).items():
    f.result()
def text(i): return ('record %03d '%i + 'levada '*(i%9)).encode()
i=0
def send(p,n,ts):
    global i
    for k in range(n):
        p.produce('golden',key=b'k%d'%(i%5),value=text(i) if i%7 else None,timestamp=ts+k,headers=[('h',b'v%d'%i),('h',None)] if i%3==0 else None,partition=0)
        i+=1
    p.flush()
ts=1_700_000_000_000
for c in ['none','gzip','snappy','lz4','zstd']:
    for idem in (False,True):
        p=Producer({'bootstrap.servers':B,'compression.type':c,'enable.idempotence':idem,'linger.ms':50})
        send(p,6,ts); ts+=1000
        send(p,3,ts-5000); ts+=1000
for t,(c,end) in enumerate([('none','commit'),('zstd','abort'),('lz4','commit'),('none','abort')]):
    p=Producer({'bootstrap.servers':B,'compression.type':c,'transactional.id':'t%d'%t,'linger.ms':50})
    p.init_transactions(10); p.begin_transaction(); send(p,4,ts); ts+=1000; send(p,2,ts); ts+=1000
    p.commit_transaction() if end=='commit' else p.abort_transaction()
p=Producer({'bootstrap.servers':B,'transactional.id':'open','linger.ms':50,'transaction.timeout.ms':600000})
p.init_transactions(10); p.begin_transaction(); send(p,3,ts)
print('done',i, flush=True)
import os; os._exit(0)
