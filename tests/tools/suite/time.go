package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
)

// timed is a line of `suite time`.
type timed struct {
	Name string `json:"name"`
	// Nanoseconds is the time of one call.
	Nanoseconds float64 `json:"nanoseconds"`
}

// warmUp is the number of calls before the measurement.
const warmUp = 3

// timeEngine measures the CPU time of a call of Karmada's own engine for each case. Each customization has an engine of
// its own, because scripts of one engine share their global variables, and some customizations use the same names.
func timeEngine(tests []*test, budget time.Duration, next func(timed) error) error {
	engines := map[string]*declarative.ConfigurableInterpreter{}
	for _, test := range tests {
		engine, ok := engines[test.customization.Name]
		if !ok {
			engine = test.load()
			engines[test.customization.Name] = engine
		}
		attributes := test.attributes()
		call := func() error {
			_, err := test.answered(engine, attributes)
			return err
		}
		if err := test.timed(budget, cpuTime, call, next); err != nil {
			return err
		}
	}
	return nil
}

// timeWebhook measures the time of a call through a webhook for each case, with Karmada's client.
func timeWebhook(tests []*test, budget time.Duration, url, ca string, next func(timed) error) error {
	client, err := webhookClient(url, ca)
	if err != nil {
		return err
	}
	begin := time.Now()
	wall := func() time.Duration { return time.Since(begin) }
	for _, test := range tests {
		call := func() error {
			_, err := test.called(client)
			return err
		}
		if err := test.timed(budget, wall, call, next); err != nil {
			return err
		}
	}
	return nil
}

// timed passes the time of a call on this clock. A call that fails ends the measurement.
func (t *test) timed(budget time.Duration, clock func() time.Duration, call func() error, next func(timed) error) error {
	for range warmUp {
		if err := call(); err != nil {
			return fmt.Errorf("%s: %w", t.title(), err)
		}
	}
	begin := clock()
	for calls := 1; ; calls++ {
		if err := call(); err != nil {
			return fmt.Errorf("%s: %w", t.title(), err)
		}
		if spent := clock() - begin; spent >= budget {
			return next(timed{t.title(), float64(spent.Nanoseconds()) / float64(calls)})
		}
	}
}

// cpuTime is the CPU time of the process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
