// Program informers watches the same objects as the management controllers in each project of Milo. It works like a
// multi-cluster manager of controller-runtime: each project is a cluster with its own cache of client-go informers. The
// program ignores the events.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

var (
	projects = schema.GroupVersionResource{
		Group: "resourcemanager.miloapis.com", Version: "v1alpha1", Resource: "projects",
	}
	compute    = schema.GroupVersion{Group: "compute.datumapis.com", Version: "v1alpha"}
	networking = schema.GroupVersion{Group: "networking.datumapis.com", Version: "v1alpha"}
)

func main() {
	kubeconfig := flag.String("discovery-kubeconfig", "", "kubeconfig of the API server that has the Projects")
	flag.Parse()
	controllerruntime.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		klog.ErrorS(err, "not watched")
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// The client has no limit, because API servers have their own limits.
	config.QPS = -1
	// The fake API server does not support Protocol Buffers.
	config.ContentType = runtime.ContentTypeJSON
	root, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	begin := time.Now()
	list, err := root.Resource(projects).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var engaged []cluster.Cluster
	for _, project := range list.Items {
		one, err := engage(ctx, config, project.GetName())
		if err != nil {
			return err
		}
		engaged = append(engaged, one)
	}
	for _, one := range engaged {
		if !one.GetCache().WaitForCacheSync(ctx) {
			return ctx.Err()
		}
	}
	fmt.Printf("synced %d projects in %.1f s\n", len(engaged), time.Since(begin).Seconds())
	<-ctx.Done()
	return nil
}

// engage watches one project.
func engage(ctx context.Context, template *rest.Config, name string) (cluster.Cluster, error) {
	config := rest.CopyConfig(template)
	host, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	host.Path = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/" + name + "/control-plane"
	config.Host = host.String()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	one, err := cluster.New(config, func(options *cluster.Options) { options.Scheme = scheme })
	if err != nil {
		return nil, err
	}
	for _, watched := range watched() {
		if _, err := one.GetCache().GetInformer(ctx, watched); err != nil {
			return nil, err
		}
	}
	go func() {
		if err := one.Start(ctx); err != nil {
			klog.ErrorS(err, "not watched", "project", name)
		}
	}()
	return one, nil
}

// watched returns one object of each kind that is watched in a project. For some kinds, only the metadata is watched.
func watched() []client.Object {
	objects := []client.Object{
		metadata(corev1.SchemeGroupVersion.WithKind("Namespace")),
		metadata(networking.WithKind("Network")),
	}
	for _, kind := range []schema.GroupVersionKind{
		networking.WithKind("LocationBinding"),
		compute.WithKind("Workload"),
		compute.WithKind("WorkloadDeployment"),
		compute.WithKind("Instance"),
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		objects = append(objects, object)
	}
	return objects
}

func metadata(kind schema.GroupVersionKind) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}
