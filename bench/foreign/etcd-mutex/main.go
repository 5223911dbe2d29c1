// Measures go.etcd.io/etcd's own concurrency.Mutex in the scenarios of bench/scenarios.ts.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run . HOST:PORT
//
// It reads commands, one a line, and answers each with a line of JSON:
//
//	pairs IN_FLIGHT MILLISECONDS
//	hold                          takes the lock that a drain begins behind
//	release                       lets go of it; says when, on the machine's monotonic clock
//	ready WAITERS                 makes their sessions, and warms up
//	wait drain                    each holds once, for 1 ms
//	wait hot MILLISECONDS         each holds again and again
//	result                        what came of that, once it is over
//
// Sessions are made before the clock runs. Each waiter of one key has a session of its own: within one
// session a mutex's key is the same, so two of them would not exclude each other. As with every other
// contender, the waiters are spread over several processes.
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
	"unsafe"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

type pairsResult struct {
	PerSecond float64 `json:"perSecond"`
	CPUMicros float64 `json:"cpuMicros"`
}

type waitResult struct {
	HoldMs  float64 `json:"holdMs"`
	EndedAt float64 `json:"endedAt"`
	Counts  []int64 `json:"counts"`
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

// sharedNow is the monotonic clock that all processes of this machine share, in ms.
func sharedNow() float64 {
	const monotonic = 1
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		must(failed)
	}
	return float64(now.Nano()) / 1e6
}

// warmUp does what every other contender does before it waits: see bench/scenarios.ts.
func warmUp(waiters []*concurrency.Session) {
	takeInTurns(waiters[:1], 1, 500*time.Millisecond)
	takeInTurns(waiters[:16], 8, time.Second)
}

func takeInTurns(waiters []*concurrency.Session, names int, duration time.Duration) {
	var done sync.WaitGroup
	from := time.Now()
	for i, session := range waiters {
		done.Add(1)
		go func(session *concurrency.Session, name string) {
			defer done.Done()
			for time.Since(from) < duration {
				mutex := concurrency.NewMutex(session, name)
				must(mutex.Lock(context.Background()))
				must(mutex.Unlock(context.Background()))
			}
		}(session, fmt.Sprintf("go-bench/warm/%d/%d", os.Getpid(), i%names))
	}
	done.Wait()
}

// wait has every waiter hold once for 1 ms, or, where there is a duration, again and again without a pause.
func wait(waiters []*concurrency.Session, name string, duration time.Duration) func() waitResult {
	counts := make([]int64, len(waiters))
	var done sync.WaitGroup
	var held int64
	from := time.Now()
	for i, session := range waiters {
		done.Add(1)
		go func(i int, session *concurrency.Session) {
			defer done.Done()
			for ok := true; ok; ok = time.Since(from) < duration {
				mutex := concurrency.NewMutex(session, name)
				must(mutex.Lock(context.Background()))
				holds := time.Now()
				if duration == 0 {
					time.Sleep(time.Millisecond)
				}
				atomic.AddInt64(&held, time.Since(holds).Microseconds())
				counts[i]++
				must(mutex.Unlock(context.Background()))
			}
		}(i, session)
	}
	return func() waitResult {
		done.Wait()
		return waitResult{HoldMs: float64(held) / 1000, EndedAt: sharedNow(), Counts: counts}
	}
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	must(err)
	return value
}

func main() {
	client := dial(os.Args[1])
	session := sessions(client, 1)[0]
	holder := concurrency.NewMutex(session, "go-bench/drain")
	var waiters []*concurrency.Session
	var result func() waitResult
	answers := json.NewEncoder(os.Stdout)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		switch words[0] {
		case "pairs":
			duration := time.Duration(number(words[2])) * time.Millisecond
			must(answers.Encode(pairs(session, number(words[1]), duration)))
		case "hold":
			must(holder.Lock(context.Background()))
			must(answers.Encode(sharedNow()))
		case "release":
			from := sharedNow()
			must(holder.Unlock(context.Background()))
			must(answers.Encode(from))
		case "ready":
			waiters = sessions(client, number(words[1]))
			warmUp(waiters)
			must(answers.Encode(len(waiters)))
		case "wait":
			duration := time.Duration(0)
			if len(words) > 2 {
				duration = time.Duration(number(words[2])) * time.Millisecond
			}
			result = wait(waiters, "go-bench/"+words[1], duration)
			must(answers.Encode(len(waiters)))
		case "result":
			must(answers.Encode(result()))
		}
	}
}
