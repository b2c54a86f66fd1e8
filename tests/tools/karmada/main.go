// Program karmada measures Karmada's own ways of interpretation: the Lua engine in the process, and the client for
// interpreter webhooks. The program reads request bodies as Karmada sends them. It prints one JSON object per body.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook/request"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// interpret performs one operation. Karmada changes the object of the attributes, so every call gets a copy.
type interpret func(ctx context.Context, attributes *request.Attributes) error

// result is the measurement for one body.
type result struct {
	Body      string `json:"body"`
	Operation string `json:"operation"`
	Calls     int    `json:"calls"`
	// Nanoseconds per call: median and 99th percentile.
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	// Heap allocations per call and their bytes.
	Allocations uint64 `json:"allocations"`
	Bytes       uint64 `json:"bytes"`
}

func main() {
	log.SetFlags(0)
	way := flag.String("way", "", "lua or webhook")
	url := flag.String("url", "", "URL of the webhook")
	ca := flag.String("ca", "", "file with the CA of the webhook")
	budget := flag.Duration("time", time.Second, "time per body")
	flag.Parse()
	if err := run(*way, *url, *ca, *budget, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(way, url, ca string, budget time.Duration, bodies []string) error {
	var call interpret
	var err error
	switch way {
	case "lua":
		call, err = luaEngine()
	case "webhook":
		call, err = webhookClient(url, ca)
	default:
		err = fmt.Errorf("-way is %q, must be lua or webhook", way)
	}
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	for _, body := range bodies {
		attributes, err := read(body)
		if err != nil {
			return fmt.Errorf("%s: %w", body, err)
		}
		if way == "lua" && !hasScript(attributes.Operation) {
			continue
		}
		measured, err := measure(call, attributes, budget)
		if err != nil {
			return fmt.Errorf("%s: %w", body, err)
		}
		measured.Body = strings.TrimSuffix(filepath.Base(body), ".json")
		if err := output.Encode(measured); err != nil {
			return err
		}
	}
	return nil
}

// read decodes the inputs that Karmada has when Karmada sends this body.
func read(file string) (*request.Attributes, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var review configv1alpha1.ResourceInterpreterContext
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, err
	}
	asked := review.Request
	attributes := &request.Attributes{
		Operation: asked.Operation, Object: &unstructured.Unstructured{}, AggregatedStatus: asked.AggregatedStatus,
	}
	if err := attributes.Object.UnmarshalJSON(asked.Object.Raw); err != nil {
		return nil, err
	}
	if asked.ObservedObject != nil {
		attributes.ObservedObj = &unstructured.Unstructured{}
		if err := attributes.ObservedObj.UnmarshalJSON(asked.ObservedObject.Raw); err != nil {
			return nil, err
		}
	}
	if asked.DesiredReplicas != nil {
		attributes.ReplicasSet = *asked.DesiredReplicas
	}
	return attributes, nil
}

// measure repeats the call until the time budget is used, and at least as often as a percentile needs. The time to copy
// the object is not measured.
func measure(call interpret, attributes *request.Attributes, budget time.Duration) (*result, error) {
	const warm, counting, timing, bearable = 3, 10, 20, 10
	ctx := context.Background()
	var times []int64
	var allocations, bytes uint64
	failures := 0
	end := time.Now().Add(budget)
	for count := 0; len(times) < timing || time.Now().Before(end); count++ {
		own := *attributes
		own.Object = attributes.Object.DeepCopy()
		counted := count >= warm && count < warm+counting
		var before, after runtime.MemStats
		if counted {
			runtime.ReadMemStats(&before)
		}
		begin := time.Now()
		err := call(ctx, &own)
		elapsed := time.Since(begin)
		if err != nil {
			// On a busy machine a script may exceed Karmada's limit of one second.
			if failures++; failures > bearable {
				return nil, err
			}
			count--
			continue
		}
		switch {
		case counted:
			runtime.ReadMemStats(&after)
			allocations += after.Mallocs - before.Mallocs
			bytes += after.TotalAlloc - before.TotalAlloc
		case count >= warm:
			times = append(times, elapsed.Nanoseconds())
		}
	}
	slices.Sort(times)
	return &result{
		Operation: string(attributes.Operation), Calls: len(times), P50: times[len(times)/2], P99: times[len(times)*99/100],
		Allocations: allocations / counting, Bytes: bytes / counting,
	}, nil
}
