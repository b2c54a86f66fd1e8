// Program admission is a Go webhook for comparison with compute-federation's admission. It checks the same rules for
// the fields of the benchmark's Workloads, and uses controller-runtime in the usual way.
package main

import (
	"flag"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	controllerruntime "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const path = "/validate-compute-datumapis-com-v1alpha-workload"

var (
	computeVersion    = schema.GroupVersion{Group: "compute.datumapis.com", Version: "v1alpha"}
	networkingVersion = schema.GroupVersion{Group: "networking.datumapis.com", Version: "v1alpha"}
)

func main() {
	host := flag.String("bind-address", "127.0.0.1", "address to serve at")
	port := flag.Int("port", 9443, "port to serve at")
	certDir := flag.String("cert-dir", "", "directory with tls.crt and tls.key")
	// controller-runtime already defines the flag --kubeconfig.
	project := flag.String("project-kubeconfig", "", "API server of the project")
	flag.Parse()
	controllerruntime.SetLogger(klog.Background())
	if err := serve(*host, *port, *certDir, *project); err != nil {
		klog.ErrorS(err, "not served")
		os.Exit(1)
	}
}

func serve(host string, port int, certDir, project string) error {
	config, err := clientcmd.BuildConfigFromFlags("", project)
	if err != nil {
		return err
	}
	// The client has no limit, because API servers have their own limits.
	config.QPS = -1
	// The fake API server does not support Protocol Buffers.
	config.ContentType = runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(computeVersion, &Workload{})
	scheme.AddKnownTypes(networkingVersion, &LocationBinding{}, &LocationBindingList{})
	metav1.AddToGroupVersion(scheme, computeVersion)
	metav1.AddToGroupVersion(scheme, networkingVersion)
	manager, err := controllerruntime.NewManager(config, controllerruntime.Options{
		Scheme:         scheme,
		MapperProvider: mapper,
		Metrics:        metricsserver.Options{BindAddress: "0"},
		WebhookServer:  webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: certDir}),
	})
	if err != nil {
		return err
	}
	ctx := controllerruntime.SetupSignalHandler()
	// The cache is filled at start, not at the first request.
	if _, err := manager.GetCache().GetInformer(ctx, &LocationBinding{}); err != nil {
		return err
	}
	validator := &workloadValidator{locations: manager.GetClient(), reviews: client.AuthorizationV1().SubjectAccessReviews()}
	manager.GetWebhookServer().Register(path, admission.WithValidator[*Workload](scheme, validator))
	return manager.Start(ctx)
}

// mapper maps the only kind that is looked up. It does not use discovery.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{networkingVersion})
	mapper.Add(networkingVersion.WithKind("LocationBinding"), meta.RESTScopeRoot)
	return mapper, nil
}
