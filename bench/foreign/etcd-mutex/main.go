// Measures go.etcd.io/etcd's own concurrency.Mutex in the scenarios of bench/scenarios.ts.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run . HOST:PORT MILLISECONDS
//
// Sessions are made before the clock runs. Each waiter of one key has a session of its own: within one
// session a mutex's key is the same, so two of them would not exclude each other.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const (
	processes    = 2
	drainWaiters = 50
	hotWaiters   = 20
)

type hot struct {
	Total int64 `json:"total"`
	Most  int64 `json:"most"`
	Least int64 `json:"least"`
}

type results struct {
	Sequential float64 `json:"sequential"`
	Inflight   float64 `json:"inflight"`
	DrainMs    float64 `json:"drainMs"`
	Hot        hot     `json:"hot"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dial(endpoint string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	must(err)
	return client
}

func sessions(client *clientv3.Client, count int) []*concurrency.Session {
	made := make([]*concurrency.Session, count)
	for i := range made {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
		must(err)
		made[i] = session
	}
	return made
}

func pairs(session *concurrency.Session, inFlight int, duration time.Duration) float64 {
	lap := func(duration time.Duration) float64 {
		var count int64
		var done sync.WaitGroup
		from := time.Now()
		for i := 0; i < inFlight; i++ {
			done.Add(1)
			go func(name string) {
				defer done.Done()
				for time.Since(from) < duration {
					mutex := concurrency.NewMutex(session, name)
					must(mutex.Lock(context.Background()))
					must(mutex.Unlock(context.Background()))
					atomic.AddInt64(&count, 1)
				}
			}(fmt.Sprintf("go-bench/%d/%d", inFlight, i))
		}
		done.Wait()
		return float64(count) / time.Since(from).Seconds()
	}
	lap(duration / 4)
	return lap(duration)
}

func drain(clients []*clientv3.Client) float64 {
	holder := concurrency.NewMutex(sessions(clients[0], 1)[0], "go-bench/drain")
	must(holder.Lock(context.Background()))
	var done sync.WaitGroup
	for _, client := range clients {
		for _, session := range sessions(client, drainWaiters) {
			done.Add(1)
			go func(session *concurrency.Session) {
				defer done.Done()
				mutex := concurrency.NewMutex(session, "go-bench/drain")
				must(mutex.Lock(context.Background()))
				time.Sleep(time.Millisecond)
				must(mutex.Unlock(context.Background()))
			}(session)
		}
	}
	time.Sleep(500 * time.Millisecond)
	from := time.Now()
	must(holder.Unlock(context.Background()))
	done.Wait()
	return float64(time.Since(from).Microseconds()) / 1000
}

func hotKey(clients []*clientv3.Client, duration time.Duration) hot {
	counts := make([]int64, len(clients)*hotWaiters)
	all := []*concurrency.Session{}
	for _, client := range clients {
		all = append(all, sessions(client, hotWaiters)...)
	}
	var done sync.WaitGroup
	from := time.Now()
	for i, session := range all {
		done.Add(1)
		go func(i int, session *concurrency.Session) {
			defer done.Done()
			for time.Since(from) < duration {
				mutex := concurrency.NewMutex(session, "go-bench/hot")
				must(mutex.Lock(context.Background()))
				counts[i]++
				must(mutex.Unlock(context.Background()))
			}
		}(i, session)
	}
	done.Wait()
	result := hot{Least: counts[0]}
	for _, count := range counts {
		result.Total += count
		if count > result.Most {
			result.Most = count
		}
		if count < result.Least {
			result.Least = count
		}
	}
	return result
}

func main() {
	endpoint := os.Args[1]
	ms, err := strconv.Atoi(os.Args[2])
	must(err)
	duration := time.Duration(ms) * time.Millisecond
	clients := []*clientv3.Client{}
	for i := 0; i < processes; i++ {
		clients = append(clients, dial(endpoint))
	}
	session := sessions(clients[0], 1)[0]
	var measured results
	measured.Sequential = pairs(session, 1, duration)
	measured.Inflight = pairs(session, 64, duration)
	measured.DrainMs = drain(clients)
	measured.Hot = hotKey(clients, 3*time.Second)
	must(json.NewEncoder(os.Stdout).Encode(measured))
}
