// Program suite runs the conformance suite of Karmada's own customizations against another runtime for Lua.
//
//	suite cases DIRECTORY    prints a request of the interpreter protocol for each case of the suite
//	suite judge DIRECTORY    reads the answers from the standard input, in the same order, and prints a verdict for each
//	suite compare DIRECTORY  reads requests and their answers from the standard input, and prints a comparison for each
//	suite call DIRECTORY URL CA
//	                         calls a webhook for each case with Karmada's client, and prints a verdict for each
//	suite time DIRECTORY DURATION [URL CA]
//	                         measures each case for this time, and prints the time of a call: of Karmada's engine, or
//	                         through a webhook with Karmada's client
//
// DIRECTORY is resourcecustomizations in the module of Karmada. Every line is one JSON object. An answer is compared with
// the result that the suite expects, and with the result of Karmada's own engine.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook/request"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// test is a case of the suite, as its files have it.
type test struct {
	Name          string                              `json:"name"`
	Operation     configv1alpha1.InterpreterOperation `json:"operation"`
	DesiredObj    *unstructured.Unstructured          `json:"desiredObj"`
	ObservedObj   *unstructured.Unstructured          `json:"observedObj"`
	StatusItems   []workv1alpha2.AggregatedStatusItem `json:"statusItems"`
	InputReplicas int32                               `json:"inputReplicas"`
	Output        map[string]any                      `json:"output"`

	file          string
	customization *configv1alpha1.ResourceInterpreterCustomization
}

// printedCase is a line of `suite cases`.
type printedCase struct {
	Name          string                                           `json:"name"`
	Customization *configv1alpha1.ResourceInterpreterCustomization `json:"customization"`
	Review        map[string]any                                   `json:"review"`
}

// verdict is a line of `suite judge`. A difference is empty if the results are equal.
type verdict struct {
	Name string `json:"name"`
	// Expected is the difference from the result that the suite expects.
	Expected string `json:"expected"`
	// Engine is the difference from the result of Karmada's engine.
	Engine string `json:"engine"`
}

const uid = "suite"

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: suite cases|judge|compare DIRECTORY, suite call DIRECTORY URL CA, or suite time DIRECTORY DURATION [URL CA]")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

func run(command, directory string, rest []string) error {
	tests, err := read(directory)
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	switch command {
	case "cases":
		for _, test := range tests {
			printed, err := test.print()
			if err == nil {
				err = output.Encode(printed)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case "judge":
		answers := json.NewDecoder(bufio.NewReader(os.Stdin))
		for _, test := range tests {
			var answer configv1alpha1.ResourceInterpreterContext
			if err := answers.Decode(&answer); err != nil {
				return fmt.Errorf("the answer to %s: %w", test.title(), err)
			}
			if err := output.Encode(test.judge(test.decoded(&answer))); err != nil {
				return err
			}
		}
		return nil
	case "compare":
		return compare(tests, os.Stdin, os.Stdout)
	case "call":
		if len(rest) != 2 {
			return errors.New("call needs a URL and the file of a CA")
		}
		client, err := webhookClient(rest[0], rest[1])
		if err != nil {
			return err
		}
		for _, test := range tests {
			if err := output.Encode(test.judge(test.called(client))); err != nil {
				return err
			}
		}
		return nil
	case "time":
		if len(rest) != 1 && len(rest) != 3 {
			return errors.New("time needs a duration, and a URL and the file of a CA or neither")
		}
		budget, err := time.ParseDuration(rest[0])
		if err != nil {
			return err
		}
		next := func(line timed) error { return output.Encode(line) }
		if len(rest) == 1 {
			return timeEngine(tests, budget, next)
		}
		return timeWebhook(tests, budget, rest[1], rest[2], next)
	default:
		return fmt.Errorf("the command is %q, must be cases, judge, compare, call or time", command)
	}
}

// read returns all cases, sorted by file.
func read(directory string) ([]*test, error) {
	var tests []*test
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "customizations.yaml" {
			return err
		}
		customization := &configv1alpha1.ResourceInterpreterCustomization{}
		if err := decode(path, func(decoder *yaml.YAMLOrJSONDecoder) error { return decoder.Decode(customization) }); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "testdata", "*.yaml"))
		if err != nil {
			return err
		}
		for _, file := range files {
			err := decode(file, func(decoder *yaml.YAMLOrJSONDecoder) error {
				test := &test{file: file, customization: customization}
				if err := decoder.Decode(test); err != nil {
					return err
				}
				if test.Operation != "" {
					tests = append(tests, test)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortStableFunc(tests, func(a, b *test) int { return strings.Compare(a.file, b.file) })
	return tests, err
}

// decode calls next for each document of a file.
func decode(path string, next func(*yaml.YAMLOrJSONDecoder) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		if err := next(decoder); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func (t *test) title() string {
	return fmt.Sprintf("%s %s %q", t.customization.Name, t.Operation, t.Name)
}

// object is the object of the request. Operations about one object have it in either field.
func (t *test) object() *unstructured.Unstructured {
	if t.DesiredObj != nil {
		return t.DesiredObj
	}
	return t.ObservedObj
}

func (t *test) attributes() *request.Attributes {
	attributes := &request.Attributes{
		Operation:        t.Operation,
		Object:           t.object().DeepCopy(),
		AggregatedStatus: t.StatusItems,
		ReplicasSet:      t.InputReplicas,
	}
	if t.Operation == configv1alpha1.InterpreterOperationRetain {
		attributes.ObservedObj = t.ObservedObj.DeepCopy()
	}
	return attributes
}

func (t *test) print() (printedCase, error) {
	printed := printedCase{Name: t.title(), Customization: t.customization}
	review := request.CreateV1alpha1ResourceInterpreterContext(uid, t.attributes())
	var err error
	if printed.Review, err = runtime.DefaultUnstructuredConverter.ToUnstructured(review); err != nil {
		return printed, err
	}
	// Karmada's client sends neither nil nor an empty list. Some scripts tell them apart.
	if t.StatusItems != nil && len(t.StatusItems) == 0 {
		err = unstructured.SetNestedSlice(printed.Review, []any{}, "request", "aggregatedStatus")
	}
	return printed, err
}
