// Measures go.etcd.io/etcd's own concurrency.Mutex in the scenarios of bench/scenarios.ts.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run . HOST:PORT
//
// It reads commands, one a line, and answers each with a line of JSON:
//
//	pairs IN_FLIGHT MILLISECONDS
//	drain
//	hot MILLISECONDS
//
// Sessions are made before the clock runs. Each waiter of one key has a session of its own: within one
// session a mutex's key is the same, so two of them would not exclude each other.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const (
	processes    = 2
	drainWaiters = 50
	hotWaiters   = 20
)

type pairsResult struct {
	PerSecond float64 `json:"perSecond"`
	CPUMicros float64 `json:"cpuMicros"`
}

type drainResult struct {
	Served  int     `json:"served"`
	Ms      float64 `json:"ms"`
	IdealMs float64 `json:"idealMs"`
}

type hotResult struct {
	Total int64 `json:"total"`
	Most  int64 `json:"most"`
	Least int64 `json:"least"`
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

func cpu() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func pairs(session *concurrency.Session, inFlight int, duration time.Duration) pairsResult {
	var count int64
	var done sync.WaitGroup
	from, used := time.Now(), cpu()
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
	return pairsResult{
		PerSecond: float64(count) / time.Since(from).Seconds(),
		CPUMicros: float64((cpu() - used).Microseconds()) / float64(count),
	}
}

func drain(clients []*clientv3.Client) drainResult {
	holder := concurrency.NewMutex(sessions(clients[0], 1)[0], "go-bench/drain")
	must(holder.Lock(context.Background()))
	var done sync.WaitGroup
	var held int64
	for _, client := range clients {
		for _, session := range sessions(client, drainWaiters) {
			done.Add(1)
			go func(session *concurrency.Session) {
				defer done.Done()
				mutex := concurrency.NewMutex(session, "go-bench/drain")
				must(mutex.Lock(context.Background()))
				from := time.Now()
				time.Sleep(time.Millisecond)
				atomic.AddInt64(&held, time.Since(from).Microseconds())
				must(mutex.Unlock(context.Background()))
			}(session)
		}
	}
	time.Sleep(500 * time.Millisecond)
	from := time.Now()
	must(holder.Unlock(context.Background()))
	done.Wait()
	return drainResult{
		Served:  len(clients) * drainWaiters,
		Ms:      float64(time.Since(from).Microseconds()) / 1000,
		IdealMs: float64(held) / 1000,
	}
}

func hotKey(clients []*clientv3.Client, duration time.Duration) hotResult {
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
	result := hotResult{Least: counts[0]}
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

func number(word string) int {
	value, err := strconv.Atoi(word)
	must(err)
	return value
}

func main() {
	clients := []*clientv3.Client{}
	for i := 0; i < processes; i++ {
		clients = append(clients, dial(os.Args[1]))
	}
	session := sessions(clients[0], 1)[0]
	answers := json.NewEncoder(os.Stdout)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		switch words[0] {
		case "pairs":
			duration := time.Duration(number(words[2])) * time.Millisecond
			must(answers.Encode(pairs(session, number(words[1]), duration)))
		case "drain":
			must(answers.Encode(drain(clients)))
		case "hot":
			must(answers.Encode(hotKey(clients, time.Duration(number(words[1]))*time.Millisecond)))
		}
	}
}
