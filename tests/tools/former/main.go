// Program former stands in for the Go manager in the test of a takeover. It has flags, probes, the Lease and admission
// webhooks of the Go manager, and no controllers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

const (
	lease  = "e98b06c6.datumapis.com"
	suffix = "-compute-datumapis-com-v1alpha-workload"
	// refused is a city that no project offers.
	refused = "NONE"
)

// config has the only field of the config file that the program reads.
type config struct {
	WebhookServer *struct{} `json:"webhookServer"`
}

// workload has the only fields of a Workload that the program reads.
type workload struct {
	Spec struct {
		Placements []struct {
			CityCodes []string `json:"cityCodes"`
		} `json:"placements"`
	} `json:"spec"`
}

func main() {
	elect := flag.Bool("leader-elect", false, "acquire the Lease")
	probes := flag.String("health-probe-bind-address", ":8081", "address of the probes")
	file := flag.String("server-config", "", "path of the config file")
	// These flags select controllers and their credentials, which the program does not have.
	flag.String("downstream-kubeconfig", "", "ignored")
	flag.Bool("enable-management-controllers", false, "ignored")
	flag.Bool("enable-cell-controllers", false, "ignored")
	flag.Parse()
	controllerruntime.SetLogger(klog.Background())
	if err := run(*elect, *probes, *file); err != nil {
		klog.ErrorS(err, "ended")
		os.Exit(1)
	}
}

func run(elect bool, probes, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config config
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	cluster, err := controllerruntime.GetConfig()
	if err != nil {
		return err
	}
	// The webhook server has the default port and the default directory of certificates, as that of the Go manager.
	manager, err := controllerruntime.NewManager(cluster, controllerruntime.Options{
		HealthProbeBindAddress: probes,
		LeaderElection:         elect,
		LeaderElectionID:       lease,
		Metrics:                metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	if config.WebhookServer != nil {
		server := manager.GetWebhookServer()
		server.Register("/mutate"+suffix, &admission.Webhook{Handler: admission.HandlerFunc(mutate)})
		server.Register("/validate"+suffix, &admission.Webhook{Handler: admission.HandlerFunc(validate)})
	}
	return manager.Start(controllerruntime.SetupSignalHandler())
}

func mutate(context.Context, admission.Request) admission.Response {
	return admission.Allowed("")
}

// validate refuses one city when a Workload is created. Its message tells a caller that this program has answered.
func validate(_ context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	var workload workload
	if err := json.Unmarshal(request.Object.Raw, &workload); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	for _, placement := range workload.Spec.Placements {
		if slices.Contains(placement.CityCodes, refused) {
			return admission.Denied("the Go manager refuses the city " + refused)
		}
	}
	return admission.Allowed("")
}
