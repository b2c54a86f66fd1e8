package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
)

// answered is a line of the input of `suite compare`: a request, and our answer to it.
type answered struct {
	Number        uint64                                    `json:"number"`
	Customization string                                    `json:"customization"`
	Review        configv1alpha1.ResourceInterpreterContext `json:"review"`
	Answer        json.RawMessage                           `json:"answer"`
}

// comparison is a line of the output of `suite compare`.
type comparison struct {
	Number  uint64  `json:"number"`
	Outcome outcome `json:"outcome"`
	// Ours and Engine are there if the outcome is unstable or different.
	Ours   *result `json:"ours,omitempty"`
	Engine *result `json:"engine,omitempty"`
}

// outcome is how an answer compares with the result of Karmada's engine.
type outcome string

const (
	// equal is the same result.
	equal outcome = "Equal"
	// failed is an error of both.
	failed outcome = "Failed"
	// malformed is an error of both: Karmada's client refuses our answer, which says that the call was successful.
	malformed outcome = "Malformed"
	// unstable is a result of the engine that differs between its runs. In one of them, it is equal to ours.
	unstable outcome = "Unstable"
	// different is anything else.
	different outcome = "Different"
)

// result is what one of the two has found: either a value or an error.
type result struct {
	Value map[string]any `json:"value"`
	Error string         `json:"error"`
}

// runs is how often the engine runs before a difference counts. The order of `pairs` is random in some of its tables.
const runs = 64

// nowOurs is the time of our calls. The engine has the time of the machine.
const nowOurs = "2001-02-03T04:05:06Z"

var timestamp = regexp.MustCompile(`"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"`)

// compare compares answers, one after the other.
func compare(tests []*test, input io.Reader, output io.Writer) error {
	// The engine logs each error of a script.
	klog.SetLogger(logr.Discard())
	customizations := map[string]*configv1alpha1.ResourceInterpreterCustomization{}
	for _, test := range tests {
		customizations[test.customization.Name] = test.customization
	}
	engines := map[string]*declarative.ConfigurableInterpreter{}
	lines := json.NewDecoder(bufio.NewReaderSize(input, 1<<20))
	buffered := bufio.NewWriter(output)
	printed := json.NewEncoder(buffered)
	for {
		var line answered
		if err := lines.Decode(&line); err == io.EOF {
			return buffered.Flush()
		} else if err != nil {
			return fmt.Errorf("the input: %w", err)
		}
		test, err := line.test(customizations)
		if err != nil {
			return fmt.Errorf("case %d: %w", line.Number, err)
		}
		engine := engines[line.Customization]
		if engine == nil {
			engine = test.load()
			engines[line.Customization] = engine
		}
		if err := printed.Encode(line.compare(test, engine)); err != nil {
			return err
		}
	}
}

// test returns the request as a case.
func (a *answered) test(customizations map[string]*configv1alpha1.ResourceInterpreterCustomization) (*test, error) {
	request := a.Review.Request
	customization := customizations[a.Customization]
	if customization == nil || request == nil {
		return nil, fmt.Errorf("customization %q is not there, or the review has no request", a.Customization)
	}
	test := &test{
		Operation:     request.Operation,
		DesiredObj:    &unstructured.Unstructured{},
		StatusItems:   request.AggregatedStatus,
		customization: customization,
	}
	if request.DesiredReplicas != nil {
		test.InputReplicas = *request.DesiredReplicas
	}
	if err := test.DesiredObj.UnmarshalJSON(request.Object.Raw); err != nil {
		return nil, err
	}
	if request.ObservedObject != nil {
		test.ObservedObj = &unstructured.Unstructured{}
		return test, test.ObservedObj.UnmarshalJSON(request.ObservedObject.Raw)
	}
	return test, nil
}

func (a *answered) compare(t *test, engine *declarative.ConfigurableInterpreter) comparison {
	compared := comparison{Number: a.Number}
	ours, successful := a.ours(t)
	first := t.result(engine)
	if compared.Outcome = outcomeOf(ours, first); compared.Outcome != different {
		if compared.Outcome == failed && successful {
			compared.Outcome = malformed
		}
		return compared
	}
	compared.Ours, compared.Engine = ours, first
	// A new engine remembers nothing of other calls.
	engine = t.load()
	for range runs {
		again := t.result(engine)
		if outcomeOf(ours, again) != different {
			compared.Outcome = unstable
			return compared
		}
		compared.Engine = again
	}
	return compared
}

// ours returns the result that Karmada's client takes from our answer, and whether the answer says that the call was
// successful.
func (a *answered) ours(t *test) (*result, bool) {
	var answer configv1alpha1.ResourceInterpreterContext
	if err := json.Unmarshal(a.Answer, &answer); err != nil {
		return &result{Error: err.Error()}, true
	}
	successful := answer.Response != nil && answer.Response.Successful
	decoded, err := t.decoded(&answer)
	return t.asResult(decoded, err, func(text string) bool { return text == nowOurs }), successful
}

// result returns the result of an engine.
func (t *test) result(engine *declarative.ConfigurableInterpreter) *result {
	before := time.Now().UTC().Truncate(time.Second)
	found, err := t.engine(engine)
	after := time.Now().UTC()
	return t.asResult(found, err, func(text string) bool {
		at, err := time.Parse(time.RFC3339, text)
		return err == nil && !at.Before(before) && !at.After(after)
	})
}

// asResult returns the result without the time of the call.
func (t *test) asResult(found results, err error, isNow func(string) bool) *result {
	if err != nil {
		return &result{Error: err.Error()}
	}
	text, err := json.Marshal(found)
	if err != nil {
		return &result{Error: err.Error()}
	}
	text = timestamp.ReplaceAllFunc(text, func(quoted []byte) []byte {
		if isNow(string(quoted[1 : len(quoted)-1])) {
			return []byte(`"now"`)
		}
		return quoted
	})
	var values map[string]any
	if err := utiljson.Unmarshal(text, &values); err != nil {
		return &result{Error: err.Error()}
	}
	return &result{Value: values}
}

func outcomeOf(ours, engine *result) outcome {
	if ours.Error != "" || engine.Error != "" {
		if ours.Error != "" && engine.Error != "" {
			return failed
		}
		return different
	}
	for name, expected := range engine.Value {
		if differs(name, expected, ours.Value[name]) != "" {
			return different
		}
	}
	return equal
}
