package main

import (
	"slices"
	"syscall"
	"time"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
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

// timeEngine measures the CPU time of a call of Karmada's own engine for each case. One engine has all scripts.
func timeEngine(tests []*test, budget time.Duration, next func(timed) error) error {
	var all []*configv1alpha1.ResourceInterpreterCustomization
	for _, test := range tests {
		if !slices.Contains(all, test.customization) {
			all = append(all, test.customization)
		}
	}
	engine := declarative.NewConfigurableInterpreter(nil)
	engine.LoadConfig(all)
	for _, test := range tests {
		attributes := test.attributes()
		// Two cases fail as they should. An error costs time, too.
		call := func() { _, _ = test.answered(engine, attributes) }
		if err := next(timed{test.title(), measure(budget, cpuTime, call)}); err != nil {
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
		call := func() { _, _ = test.called(client) }
		if err := next(timed{test.title(), measure(budget, wall, call)}); err != nil {
			return err
		}
	}
	return nil
}

// measure returns the time of a call in nanoseconds, on this clock.
func measure(budget time.Duration, clock func() time.Duration, call func()) float64 {
	for range warmUp {
		call()
	}
	begin := clock()
	for calls := 1; ; calls++ {
		call()
		if spent := clock() - begin; spent >= budget {
			return float64(spent.Nanoseconds()) / float64(calls)
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
